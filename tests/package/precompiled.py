#!/usr/bin/env python3
"""precompiled.py SOURCE WORK COMPILER: checks that the sources compile with precompiled headers, as scripts/demo builds them.

A precompiled header includes more than a source asks for: a name can then clash with one of the standard library. Configures the
preset `demo` in WORK, makes its precompiled headers and checks the syntax of every source that has one. No object is made.
"""
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

source, work, compiler = sys.argv[1:]
shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)
subprocess.run(['cmake', '--preset', 'demo', '-B', work, f'-DCMAKE_CXX_COMPILER={compiler}', '-DCMAKE_EXPORT_COMPILE_COMMANDS=ON'],
               cwd=source, check=True, stdout=subprocess.DEVNULL)
with open(os.path.join(work, 'compile_commands.json')) as file:
    commands = json.load(file)
headers = [each for each in commands if '/cmake_pch.' in each['file']]
sources = [each for each in commands if each not in headers and '/cmake_pch.' in each['command']]
if len(headers) < 2 or len(sources) < 100:
    sys.exit(f'{len(headers)} precompiled headers for {len(sources)} sources: the preset demo has more')


def failed(command):
    run = subprocess.run(command['command'] + command.get('only', ''), shell=True, cwd=command['directory'], capture_output=True, text=True)
    if run.returncode:
        print(f"{command['file']} does not compile with precompiled headers:\n{run.stderr}")
    return run.returncode != 0


with ThreadPoolExecutor(os.cpu_count()) as pool:
    if any(list(pool.map(failed, headers))):
        sys.exit(1)
    wrong = sum(pool.map(failed, [each | {'only': ' -fsyntax-only'} for each in sources]))
print(f'{len(sources)} sources, {wrong} of them do not compile')
sys.exit(wrong > 0)
