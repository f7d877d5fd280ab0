"""Small templates over operators, filters, tests, methods, loops and scopes: a list by hand, and random expressions."""
import random

VARIABLES = {
    "i": 7, "z": 0, "neg": -3, "f": 2.5, "g": 1e20, "h": 1e-7, "t": True, "no": False, "none_value": None,
    "s": "Hello World", "e": "", "u": "Grüße 😀 ßİ Ǆ", "sp": "  padded\t\n", "lines": "one\ntwo\r\nthree\n\nfive", "html": "<a href=\"x\">'&'</a>",
    "csv": "a,b,,c", "num": " 42 ", "fnum": "3.75",
    "l": [3, 1, 2], "le": [], "ls": ["b", "A", "c", "a"], "nested": [[1, 2], [3, [4, 5]]], "mixed": [1, "a", None, 2.5, True, [1]],
    "d": {"b": 1, "a": 2, "C": 3}, "de": {}, "deep": {"x": {"y": [10, {"z": "end"}]}, "items": "shadow", "content": "c"},
    "people": [{"name": "Ann", "age": 30, "city": "Rome"}, {"name": "bob", "age": 25, "city": "oslo"}, {"name": "Cid", "age": 30}],
}

BY_HAND = r"""
{{ i + 2 * 3 - 4 // 3 }}|{{ 7 / 2 }}|{{ 7 // -2 }}|{{ -7 % 3 }}|{{ 7 % -3 }}|{{ 2 ** 10 }}|{{ 2 ** -1 }}|{{ 7.5 // 2 }}|{{ -7.5 % 2 }}
{{ 1 + 2.0 }}|{{ 10 / 5 }}|{{ 0.1 + 0.2 }}|{{ g }}|{{ h }}|{{ 1e16 }}|{{ 123456789012345.0 }}|{{ 1e15 }}|{{ 0.0001 }}|{{ 1.0e-5 }}|{{ -0.0 }}
{{ 1_000 }}|{{ 0x1F }}|{{ 0b101 }}|{{ 0o17 }}|{{ 1.5e3 }}|{{ 00 }}
{{ 'a' 'b' "c" }}|{{ 'it\'s' }}|{{ "tab\tnl\n\x41\u00e9\U0001F600\101" }}|{{ 'back\\slash \d' }}
{{ 'a' ~ 1 ~ none ~ true ~ 2.0 ~ [1, 'x'] }}|{{ 'ab' * 3 }}|{{ 3 * [1] }}|{{ [1] + [2] }}|{{ (1,) + (2, 3) }}
{{ 1 < 2 < 3 }}|{{ 1 < 2 > 3 }}|{{ 1 == 1.0 }}|{{ true == 1 }}|{{ 'a' < 'b' }}|{{ [1, 2] < [1, 3] }}|{{ (1, 2) == [1, 2] }}|{{ not 1 == 2 }}
{{ 1 in l }}|{{ 9 not in l }}|{{ 'ell' in s }}|{{ 'b' in d }}|{{ 'x' in undefined_name }}|{{ none in mixed }}|{{ 1 in (1, 2) }}
{{ t and i }}|{{ no or 'x' }}|{{ e or none_value or 0 }}|{{ not e }}|{{ 'yes' if i > 3 else 'no' }}|{{ 'yes' if no }}|{{ i if no else s if t else f }}
{{ missing }}|{{ missing is defined }}|{{ missing|default('x') }}|{{ missing == other_missing }}|{{ d.missing }}|{{ d['missing'] is undefined }}
{{ missing.x }}
{{ d.missing.x }}
{{ missing + 1 }}
{{ missing[0] }}
{{ missing() }}
{{ missing|length }}|{{ missing|list }}|{{ missing|join }}|{{ missing|first is defined }}|{% for x in missing %}x{% else %}none{% endfor %}
{{ l[0] }}|{{ l[-1] }}|{{ l[5] is defined }}|{{ s[1] }}|{{ s[-1] }}|{{ u[7] }}|{{ d['b'] }}|{{ deep.x.y[1].z }}|{{ deep['x']['y'][0] }}|{{ l.0 }}
{{ l[1:] }}|{{ l[:-1] }}|{{ l[::-1] }}|{{ s[::2] }}|{{ s[-3:] }}|{{ s[::-1] }}|{{ u[::-1] }}|{{ u[2:8] }}|{{ l[10:] }}|{{ s[5:2] }}|{{ s[8:2:-2] }}|{{ range(10)[2:8:3] }}
{{ none_value[1:] }}
{{ l['x'] is defined }}|{{ i.x is defined }}|{{ none_value.x is defined }}|{{ s.foo is defined }}
{{ deep.items }}|{{ deep['items'] }}|{{ d.items()|list }}|{{ d.keys()|list }}|{{ d.values()|list }}|{{ d.get('b') }}|{{ d.get('q') }}|{{ d.get('q', 5) }}
{{ d.items() }}|{{ d.keys() }}|{{ d.values() }}|{{ range(3) }}|{{ range(1, 10, 3) }}|{{ range(5)|list }}|{{ range(0) }}|{{ d }}|{{ mixed }}|{{ (1,) }}|{{ () }}|{{ ('a', 2) }}
{{ d.update({'x': 1}) }}
{{ l.append(4) }}
{{ l.append is defined }}|{{ l.count(1) }}|{{ l.index(2) }}|{{ ls.copy() }}
{{ ["it's", 'say "x"', "both ' and \"", 'nl\n', '\x7f\x00', 'é😀', '\u200b\xa0'] }}
{{ s.upper() }}|{{ s.lower() }}|{{ s.title() }}|{{ 'hELLO wORLD'.capitalize() }}|{{ s.swapcase() }}|{{ u.upper() }}|{{ u.lower() }}|{{ u.title() }}|{{ u.capitalize() }}|{{ u.casefold() }}
{{ 'ΑΣ ΣΑΣ'.lower() }}|{{ 'ﬁn ŉ'.upper() }}|{{ 'ǆ'.title() }}|{{ "they're bill's".title() }}|{{ 'ὀδυσσεύς'.upper() }}
[{{ sp.strip() }}]|[{{ sp.lstrip() }}]|[{{ sp.rstrip() }}]|[{{ 'xxabcxx'.strip('x') }}]|[{{ 'abcba'.lstrip('ab') }}]|[{{ 'éaé'.strip('é') }}]|[{{ '\u2003x\u3000'.strip() }}]
{{ csv.split(',') }}|{{ csv.split(',', 1) }}|{{ csv.rsplit(',', 1) }}|{{ s.split() }}|{{ '  a  b  c '.split() }}|{{ '  a  b  c '.split(none, 1) }}|{{ '  a  b  c '.rsplit(none, 1) }}|{{ 'a<>b<>c'.split('<>') }}|{{ ''.split() }}|{{ ''.split(',') }}|{{ 'abc'.split(maxsplit=1) }}
{{ s.split('') }}
{{ lines.splitlines() }}|{{ lines.splitlines(true) }}|{{ 'a\x0bb\x0cc\x1cd\x85e\u2028f'.splitlines() }}|{{ ''.splitlines() }}
{{ s.startswith('Hell') }}|{{ s.startswith(('x', 'H')) }}|{{ s.endswith('ld') }}|{{ s.startswith('World', 6) }}|{{ s.endswith('o', 0, 5) }}|{{ ''.startswith('') }}
{{ s.replace('l', 'L') }}|{{ s.replace('l', 'L', 1) }}|{{ 'abc'.replace('', '-') }}|{{ 'abc'.replace('', '-', 2) }}|{{ u.replace('ü', 'ue') }}|{{ 'aaa'.replace('aa', 'b') }}
{{ s.find('o') }}|{{ s.find('o', 5) }}|{{ s.rfind('o') }}|{{ s.find('q') }}|{{ u.find('😀') }}|{{ s.index('W') }}|{{ s.count('l') }}|{{ 'aaaa'.count('aa') }}|{{ s.count('') }}|{{ s.find('', 20) }}
{{ s.index('q') }}
{{ ','.join(ls) }}|{{ ''.join([]) }}|{{ '-'.join('abc') }}|{{ ', '.join(d) }}
{{ ','.join([1, 2]) }}
{{ 'a=b=c'.partition('=') }}|{{ 'a=b=c'.rpartition('=') }}|{{ 'abc'.partition('=') }}|{{ 'abc'.rpartition('=') }}
{{ 'prefix-x'.removeprefix('prefix-') }}|{{ 'x.txt'.removesuffix('.txt') }}|{{ 'x'.removesuffix('') }}
[{{ 'ab'.center(7) }}]|[{{ 'ab'.center(6, '*') }}]|[{{ 'abc'.center(6) }}]|[{{ 'ab'.ljust(4) }}]|[{{ 'ab'.rjust(4, '.') }}]|{{ '-42'.zfill(6) }}|{{ '7'.zfill(3) }}|{{ 'a\tb'.expandtabs(4) }}
{{ 'abc'.isalpha() }}|{{ 'a1'.isalnum() }}|{{ '12'.isdigit() }}|{{ '²'.isdigit() }}|{{ '²'.isdecimal() }}|{{ '½'.isnumeric() }}|{{ ' \t'.isspace() }}|{{ ''.isspace() }}|{{ 'AB1'.isupper() }}|{{ 'ab1'.islower() }}|{{ '1'.islower() }}|{{ 'Ab Cd'.istitle() }}|{{ 'abc'.isascii() }}|{{ 'é'.isascii() }}|{{ 'a_b'.isidentifier() }}|{{ 'a\n'.isprintable() }}
{{ '{} {}'.format(1, 'x') }}|{{ '{1} {0}'.format(1, 2) }}|{{ '{a}-{b}'.format(a=1, b='q') }}|{{ '{:>5}|{:<5}|{:^5}'.format(1, 'x', 'y') }}|{{ '{:05d} {:+d} {:x} {:#o}'.format(42, 3, 255, 8) }}|{{ '{:.2f} {:e} {:g} {:,}'.format(3.14159, 12345.678, 0.0001, 1234567) }}|{{ '{!r}'.format('q') }}|{{ '{{}}'.format() }}|{{ '{0[0]} {1.name}'.format(l, people[0]) }}|{{ '{:{}}'.format('a', 4) }}|{{ '{:%}'.format(0.25) }}
{{ '{}'.format() }}
{{ '%s and %s' % ('a', 1) }}|{{ '%d%%' % 5 }}|{{ '%5.1f|%-5s|%05d' % (2.345, 'ab', 42) }}|{{ '%(x)s' % {'x': 3} }}|{{ '%r' % 'q' }}|{{ '%x' % 255 }}|{{ '%s' % none }}|{{ '%s' % [1] }}|{{ '%c' % 65 }}|{{ '%e' % 1234.5 }}
{{ '%s %s' % 'a' }}
{{ '%s' % (1, 2) }}
{{ '%d' % 'x' }}
{{ s|upper }}|{{ s|lower }}|{{ s|title }}|{{ "foo-bar (baz) [x{y <z it's"|title }}|{{ s|capitalize }}|{{ sp|trim }}|{{ 'xax'|trim('x') }}|{{ 5|string + 'x' }}|{{ none|upper }}|{{ [1]|trim }}
{{ s|length }}|{{ l|length }}|{{ d|count }}|{{ u|length }}|{{ range(4)|length }}|{{ d.items()|length }}
{{ i|length }}
{{ l|map('string')|length }}
{{ l|join(', ') }}|{{ l|join }}|{{ people|join('/', attribute='name') }}|{{ d|join('+') }}|{{ 'abc'|join('.') }}|{{ mixed|join('|') }}
{{ none_value|join }}
{{ l|sort }}|{{ ls|sort }}|{{ ls|sort(case_sensitive=true) }}|{{ l|sort(reverse=true) }}|{{ people|sort(attribute='age')|map(attribute='name')|list }}|{{ people|sort(attribute='age,name', reverse=true)|map(attribute='name')|join(',') }}
{{ mixed|sort }}
{{ d|dictsort }}|{{ d|dictsort(true) }}|{{ d|dictsort(false, 'value') }}|{{ d|dictsort(reverse=true) }}
{{ ls|unique|list }}|{{ [1, 1.0, true, 2]|unique|list }}|{{ ['a', 'A']|unique|list }}|{{ ['a', 'A']|unique(true)|list }}|{{ people|unique(attribute='age')|map(attribute='name')|list }}
{{ l|min }}|{{ l|max }}|{{ ls|min }}|{{ ls|max }}|{{ le|max is defined }}|{{ people|max(attribute='age') }}|{{ l|sum }}|{{ people|sum(attribute='age') }}|{{ le|sum(start=5) }}|{{ nested|sum(start=[]) }}
{{ l|first }}|{{ l|last }}|{{ le|first is defined }}|{{ s|first }}|{{ s|last }}|{{ d|first }}|{{ d|last }}|{{ range(3)|last }}
{{ l|reverse|list }}|{{ s|reverse }}|{{ d|reverse|list }}|{{ l|map('string')|reverse|list }}|{{ u|reverse }}
{{ 'abc'|list }}|{{ d|list }}|{{ d|items|list }}|{{ (1, 2)|list }}|{{ missing|items|list }}
{{ l|items|list }}
{{ l|map('string')|list }}|{{ ls|map('upper')|join }}|{{ people|map(attribute='city', default='?')|list }}|{{ people|map(attribute='city')|list }}|{{ [['a', 'b']]|map(attribute=1)|list }}|{{ [{'a': {'b': 3}}]|map(attribute='a.b')|list }}|{{ ls|map('replace', 'a', 'x')|list }}|{{ l|map('round', 1)|list }}
{{ l|select('odd')|list }}|{{ l|reject('odd')|list }}|{{ mixed|select|list }}|{{ mixed|reject('string')|list }}|{{ l|select('greaterthan', 1)|list }}|{{ ls|select('in', 'abc')|list }}|{{ l|select('divisibleby', 3)|list }}
{{ people|selectattr('age', 'equalto', 30)|map(attribute='name')|list }}|{{ people|rejectattr('city')|map(attribute='name')|list }}|{{ people|selectattr('city', 'defined')|list|length }}|{{ people|selectattr('age', '>', 26)|list|length }}
{{ people|groupby('age') }}|{% for age, who in people|groupby('age') %}{{ age }}:{{ who|map(attribute='name')|join(',') }};{% endfor %}|{{ people|groupby('city', default='none')|map('first')|list }}
{{ l|batch(2)|list }}|{{ l|batch(2, 'x')|list }}|{{ range(7)|slice(3)|list }}|{{ range(7)|slice(3, 'x')|list }}
{{ '42'|int }}|{{ num|int }}|{{ fnum|int }}|{{ 'x'|int }}|{{ 'x'|int(-1) }}|{{ '0x1f'|int(base=16) }}|{{ 'ff'|int(0, 16) }}|{{ 2.9|int }}|{{ -2.9|int }}|{{ true|int }}|{{ none|int }}|{{ l|int }}|{{ '1_000'|int }}|{{ '1e3'|int }}|{{ 'inf'|int }}
{{ fnum|float }}|{{ '1e3'|float }}|{{ 'x'|float }}|{{ 'x'|float(1.5) }}|{{ i|float }}|{{ 'inf'|float }}|{{ 'nan'|float }}|{{ none|float }}|{{ '.5'|float }}
{{ 2.5|round }}|{{ 3.5|round }}|{{ 2.675|round(2) }}|{{ 1234|round(-2) }}|{{ 42.55|round(1, 'floor') }}|{{ 42.51|round(1, 'ceil') }}|{{ -2.5|round }}|{{ i|round }}|{{ 0.15|round(1) }}|{{ 1250|round(-2) }}
{{ -5|abs }}|{{ neg|abs }}|{{ -2.5|abs }}|{{ true|abs }}
{{ 'x'|abs }}
{{ none|default('d') }}|{{ e|default('d') }}|{{ e|default('d', true) }}|{{ none|d('x', boolean=true) }}|{{ missing|default }}|{{ missing.x|default('q') }}
{{ html|escape }}|{{ html|e|length }}|{{ html|safe }}|{{ '<' + '<'|safe }}|{{ ('<'|safe) + '<' }}|{{ '<'|safe ~ '<' }}|{{ '<'|e|e }}|{{ '<'|e|forceescape }}|{{ ('a'|safe).upper() + '<' }}|{{ 'x'|safe is string }}|{{ ('<b>'|safe).replace('b', '<i>') }}|{{ ['<'|safe]  }}
{{ lines|indent }}|{{ lines|indent(2, true) }}|{{ lines|indent(2, false, true) }}|{{ lines|indent('>>') }}|{{ ''|indent(2, true) }}|{{ 'a\n'|indent }}
{{ 'foo bar baz qux'|truncate(9) }}|{{ 'foo bar baz qux'|truncate(9, true) }}|{{ 'foo bar baz qux'|truncate(11, false, '...', 0) }}|{{ 'foo bar'|truncate(3, true, '', 0) }}|{{ 'two words here_x'|wordcount }}|[{{ 'x'|center(5) }}]|{{ '%s-%s'|format(1, 2) }}|{{ '%(a)s'|format(a=3) }}|{{ 'a.b'|replace('.', '-') }}|{{ 12321|replace(2, 'x') }}|{{ 'aaa'|replace('a', 'b', 2) }}
{{ d|tojson }}|{{ mixed|tojson }}|{{ deep|tojson(indent=2) }}|{{ d|tojson(sort_keys=true) }}|{{ u|tojson }}|{{ u|tojson(ensure_ascii=true) }}|{{ d|tojson(separators=(',', ':')) }}|{{ 'a"\\/\n\t\x01\x7f'|tojson }}|{{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }}|{{ [1.0, 1e20, 0.1, -0.0]|tojson }}|{{ html|tojson }}|{{ (1, 2)|tojson }}|{{ le|tojson(indent=2) }}|{{ nested|tojson(indent=1) }}|{{ de|tojson(indent=4) }}|{{ 'x'|tojson|length }}|{{ deep|tojson(indent='--') }}
{{ missing|tojson }}
{{ range(3)|tojson }}
{{ i is odd }}|{{ i is even }}|{{ 9 is divisibleby 3 }}|{{ i is number }}|{{ t is number }}|{{ i is integer }}|{{ t is integer }}|{{ f is float }}|{{ t is boolean }}|{{ s is string }}|{{ l is sequence }}|{{ s is sequence }}|{{ d is sequence }}|{{ l is iterable }}|{{ i is iterable }}|{{ d is mapping }}|{{ l is mapping }}|{{ none_value is none }}|{{ i is not none }}|{{ t is true }}|{{ no is false }}|{{ 1 is true }}|{{ missing is iterable }}|{{ missing is sequence }}|{{ missing is callable }}|{{ range is callable }}|{{ s.upper is callable }}|{{ s is callable }}
{{ s is lower }}|{{ 'abc' is lower }}|{{ 'ABC' is upper }}|{{ 1 is eq 1 }}|{{ 1 is ne 2 }}|{{ 1 is lt 2 }}|{{ 2 is ge 2 }}|{{ 1 is in [1] }}|{{ 'a' is in 'abc' }}|{{ none is sameas none }}|{{ 'upper' is filter }}|{{ 'odd' is test }}|{{ 'nope' is filter }}|{{ i is equalto 7 }}|{{ s is not defined }}|{{ d.items() is sequence }}|{{ l|map('string') is sequence }}|{{ x is defined and x }}
{% for x in l %}{{ loop.index }}/{{ loop.length }}:{{ x }}{{ ',' if not loop.last }}{% endfor %}
{% for x in l %}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.depth }}{{ loop.depth0 }};{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }} {% endfor %}|{% for k in d %}{{ k }}{% endfor %}|{% for c in 'añ😀' %}[{{ c }}]{% endfor %}|{% for a, b in ['xy', (1, 2)] %}{{ a }}{{ b }}{% endfor %}|{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for a, b in [(1, 2, 3)] %}{% endfor %}
{% for x in 5 %}{% endfor %}
{% for x in l if x > 1 %}{{ loop.index }}{{ x }}{{ loop.last }}{{ loop.length }};{% else %}empty{% endfor %}|{% for x in l if x > 9 %}x{% else %}empty{% endfor %}
{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}|{% for x in [1] %}{% continue %}{% else %}else{% endfor %}|{% for x in [1] %}{% break %}{% else %}else{% endfor %}
{% for x in l %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }}{% endfor %}|{% for x in [1, 1, 2] %}{% if loop.changed(x) %}{{ x }}{% endif %}{% endfor %}
{% for x in nested recursive %}{% if x is sequence %}({{ loop(x) }}){% else %}{{ x }}@{{ loop.depth }}{% endif %}{% endfor %}
{% for x in l %}{% for y in 'ab' %}{{ loop.index }}{{ y }}{% endfor %}{{ loop.index }};{% endfor %}
{% set x = 1 %}{% for y in l %}{% set x = y %}{{ x }}{% endfor %}{{ x }}|{% set ns = namespace(x=1, l=[]) %}{% for y in l %}{% set ns.x = ns.x + y %}{% set ns.l = ns.l + [y] %}{% endfor %}{{ ns.x }}{{ ns.l }}|{% if t %}{% set q = 5 %}{% endif %}{{ q }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}|{% set (a, b) = 'xy' %}{{ a }}{{ b }}|{% set c = 1, %}{{ c }}|{% set x %}block {{ i }}{% endset %}[{{ x }}]|{% set x | upper | replace('B', '_') %}block{% endset %}{{ x }}|{% set ns = namespace() %}{% set ns.y %}in{% endset %}{{ ns.y }}
{% set d.x = 1 %}
{% set ns = namespace(a=1) %}{{ ns }}|{{ ns.b is defined }}|{{ ns['a'] }}|{% set ns.b = ns.a %}{{ ns.b }}|{% set ns = namespace({'q': 2}, r=3) %}{{ ns.q + ns.r }}
{% set ns = namespace(_a=1) %}
{% macro m(a, b='x', c=a) %}[{{ a }},{{ b }},{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(b=3, a=4) }}{{ m() }}{{ m(1, c=none) }}|{{ m.name }}{{ m.arguments }}{{ m.catch_kwargs }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}
{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}{{ m(*[5, 6], **{'y': 7}) }}
{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}in {{ i }}{% endcall %}|{% macro r(l) %}{% for x in l %}{{ caller(x, loop.index) }}{% endfor %}{% endmacro %}{% call(x, n=0) r(ls) %}{{ n }}{{ x }} {% endcall %}
{% macro fact(n) %}{{ 1 if n < 2 else n * fact(n - 1)|int }}{% endmacro %}{{ fact(5) }}|{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}b{% endmacro %}{{ a() }}|{% set v = 1 %}{% macro m() %}{{ v }}{% endmacro %}{{ m() }}{% set v = 2 %}{{ m() }}
{% macro m() %}{% set i = 99 %}{{ i }}{% endmacro %}{{ m() }}{{ i }}|{% macro m(x) %}{{ x is defined }}{{ x }}{% endmacro %}{{ m() }}|{{ caller is defined }}
{% filter upper %}text {{ s }}{% endfilter %}|{% filter replace('a', 'b')|trim %}  banana {% endfilter %}|{% with x = 5, y = i %}{{ x + y }}{% endwith %}{{ x is defined }}|{% with %}{% set z = 9 %}{{ z }}{% endwith %}{{ z }}
{% if no %}a{% elif z %}b{% elif i > 3 %}c{% else %}d{% endif %}|{% if l %}full{% endif %}{% if not le %}empty{% endif %}{% if 0.0 %}x{% endif %}{% if de %}x{% endif %}{% if ' ' %}space{% endif %}
{% raw %}{{ not }} {% this %} {# or #}{% endraw %}|{#- comment -#}  |{{ '{{' }}|{{ '}}' }}|{{ {'a': {'b': 1}}['a']['b'] }}|{{ {'a': 1}}}
{{ 'x' }}

  {%- if t -%}  stripped  {%- endif -%}

{{ 'y' }}
a
  {% if t %}
  b
    {%+ if t %}
  c
  {% endif +%}
  d
{% endif %}
e {% set q = 1 %}

f {# comment #}
  {# alone #}
g
{{- ' no space ' -}}
   h {{+ 'x' }}
{% for x in l -%}
  {{ x }}
{%- endfor %}|
  {%- for x in l %}
  - {{ x }}
  {%- endfor %}
{% generation %}said{% endgeneration %}|{% for x in l %}{% generation %}{{ x }}{% set gg = x %}{% endgeneration %}{{ gg is defined }}{% endfor %}
{{ strftime_now('%Y-%m-%d %H:%M:%S %j %A %B %%') }}|{{ strftime_now('%d %b %Y') }}|{{ strftime_now is defined }}
{{ raise_exception('stop: ' ~ i) }}
{{ raise_exception(l) }}
{{ dict(a=1, b=2) }}|{{ dict([('x', 1)], y=2) }}|{{ dict(d, b=9) }}|{{ dict() }}|{{ {'a': 1, 'a': 2} }}|{{ {1: 'i', true: 't', 1.0: 'f'} }}|{{ {(1, 2): 3} }}
{{ {[1]: 2} }}
{{ range(100001) }}
{{ range(3, 0, -1)|list }}|{{ range(2)[5] is defined }}|{{ 1 in range(3) }}|{{ range(0, 10, 4)[-1] }}|{{ range(0) == range(2, 1) }}
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.next() }}{% set _ = c.reset() %}{{ c.current }}|{% set j = joiner('; ') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}
{{ 'abc'|attr('upper') is defined }}|{{ d|attr('b') is defined }}|{{ 2.0.is_integer() }}|{{ 2.0 }}
{{ s|nosuchfilter }}
{{ s is nosuchtest }}
{{ (l|map('string'))|list }}{% set gen = l|map('string') %}{{ gen|list }}{{ gen|list }}|{% set it = l|reverse %}{{ it|first }}{{ it|list }}
{{ [1, 2, 3][1:][0] }}|{{ 'abc'[1:]|upper }}|{{ -l[0] }}|{{ +i }}|{{ --i }}|{{ not not t }}|{{ -i ** 2 }}|{{ 2 ** 3 ** 2 }}|{{ 1 if t else 2 if no else 3 }}|{{ (1 if t else 2) if no else 3 }}|{{ i|string|length + 1 }}|{{ i + 1|float }}|{{ 'a' if t else 'b' ~ 'c' }}
{{ l is iterable and l is not mapping and (l is not string) }}|{{ 3 is odd if t else 'n' }}|{{ not missing is defined }}|{{ 'a' in 'abc' and not 'z' in 'abc' }}|{{ 1 in l or missing.x }}
{% print i, s %}|{%- set x = namespace(v=none) -%}{{ x.v is none }}|{{ none }}|{{ none == none_value }}|{{ [] == le }}|{{ {} == de }}|{{ {'a': 1, 'b': 2} == {'b': 2, 'a': 1} }}
{{ 9223372036854775807 }}|{{ 0.1 * 3 }}|{{ 1 / 3 }}|{{ 100 * 1.1 }}|{{ 5 // 0.3 }}|{{ 1e308 * 10 }}|{{ 3.0 == 3 }}|{{ 1e3|int }}|{{ 1e22 }}|{{ 123456.789e3 }}
{{ 1 / 0 }}
{{ 'a' + 1 }}
{{ 1 + 'a' }}
{{ [1] + (2,) }}
{{ 'a' < 1 }}
{{ none < 1 }}
{{ 1 in 5 }}
{{ 5 in 'abc' }}
{{ [] in d }}
{{ l() }}
{{ none_value() }}
{{ s.nosuch() }}
{{ -s }}
{{ l[::0] }}
{{ s['upper']() }}|{{ d['get']('b') }}|{{ d['keys']()|list }}
{% break %}
{% if t %}
{% endif %}
{{ i
{% nosuchtag %}
{{ 1 + }}
{{ (1 }}
{% for x in l %}
{% set 1 = 2 %}
{% for loop in l %}{% endfor %}
{# open
""".strip("\n").split("\n")


def by_hand():
    """Lines; a line that follows one without any tag belongs to the template before it."""
    snippets, many = [], []
    for line in BY_HAND:
        if line in ("{{ 'x' }}", "a", "e {% set q = 1 %}", "g", "{% for x in l -%}") or many:
            many.append(line)
            if line in ("{{ 'y' }}", "{% endif %}", "g", "   h {{+ 'x' }}", "  {%- endfor %}"):
                snippets.append("\n".join(many) + "\n")
                many = []
            continue
        snippets.append(line)
    return snippets


class Random:
    """Random expressions: mostly of fitting types, sometimes not."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, choices):
        return self.random.choice(choices)

    def expression(self, kind, depth):
        if self.random.random() < 0.06:
            kind = self.pick(["integer", "text", "list", "dict", "any", "boolean"])
        if depth <= 0 or self.random.random() < 0.15:
            return self.leaf(kind)
        return getattr(self, kind)(depth - 1)

    def leaf(self, kind):
        leaves = {
            "integer": ["i", "z", "neg", "1", "2", "5", "10", "l[0]", "f", "d.b", "-1", "3.5", "t", "g"],
            "text": ["s", "e", "u", "sp", "lines", "csv", "num", "html", "'a'", "'Wörld'", "' '", "''", "','", "'l'", "'%s'", "'{}'", "ls[0]", "people[0].name"],
            "list": ["l", "le", "ls", "nested", "mixed", "[1, 2]", "[]", "people", "(1, 'a')", "range(4)", "csv.split(',')"],
            "dict": ["d", "de", "deep", "{'k': 1}", "people[1]", "{}"],
            "boolean": ["t", "no", "true", "false", "i > 3", "l"],
            "any": ["none", "missing", "d.missing", "none_value", "i", "s", "l", "d"],
        }
        return self.pick(leaves[kind])

    def integer(self, n):
        e = self.expression
        return self.pick([
            lambda: f"({e('integer', n)} {self.pick(['+', '-', '*', '/', '//', '%'])} {e('integer', n)})",
            lambda: f"{e(self.pick(['text', 'list', 'dict']), n)}|length",
            lambda: f"({e('text', n)}).{self.pick(['find', 'count', 'rfind'])}({e('text', n)})",
            lambda: f"({e('any', n)})|int", lambda: f"({e('integer', n)})|abs", lambda: f"({e('integer', n)})|round({self.pick(['0', '1', '2', '-1'])})",
            lambda: f"({e('list', n)})|{self.pick(['sum', 'min', 'max', 'first', 'last'])}", lambda: f"({e('any', n)})|float",
            lambda: f"({e('integer', n)} if {e('boolean', n)} else {e('integer', n)})", lambda: f"-({e('integer', n)})",
        ])()

    def text(self, n):
        e = self.expression
        method = self.pick(["upper", "lower", "title", "capitalize", "strip", "lstrip", "rstrip", "swapcase", "casefold"])
        return self.pick([
            lambda: f"({e('text', n)}).{method}()", lambda: f"({e('text', n)} + {e('text', n)})", lambda: f"({e('any', n)} ~ {e('any', n)})",
            lambda: f"({e('text', n)} * {self.pick(['0', '2', '3', '-1'])})", lambda: f"({e('text', n)})[{self.slice(n)}]",
            lambda: f"({e('text', n)})[{e('integer', 0)}]", lambda: f"({e('text', n)}).replace({e('text', 0)}, {e('text', 0)})",
            lambda: f"({e('text', n)})|{self.pick(['upper', 'lower', 'title', 'capitalize', 'trim', 'string', 'reverse', 'escape', 'safe', 'indent', 'wordcount', 'first', 'last'])}",
            lambda: f"({e('list', n)})|join({e('text', 0)})", lambda: f"({e('any', n)})|tojson", lambda: f"({e('any', n)})|string",
            lambda: f"({e('dict', n)})|tojson(indent={self.pick(['0', '1', '2', 'none'])}, sort_keys={self.pick(['true', 'false'])})",
            lambda: f"({e('text', n)}).join({e('list', n)})", lambda: f"('%s-%s' % ({e('any', n)}, {e('any', n)}))",
            lambda: f"'{{}}:{{}}'.format({e('any', n)}, {e('any', n)})", lambda: f"({e('text', n)})|replace({e('any', 0)}, {e('any', 0)})",
            lambda: f"({e('text', n)}).{self.pick(['strip', 'lstrip', 'rstrip', 'removeprefix', 'removesuffix'])}({e('text', 0)})",
            lambda: f"({e('any', n)})|default({e('text', 0)}{self.pick(['', ', true'])})", lambda: f"({e('text', n)}).{self.pick(['center', 'ljust', 'rjust', 'zfill'])}({self.pick(['3', '14'])})",
            lambda: f"({e('text', n)})|truncate({self.pick(['3', '5', '9'])}, {self.pick(['true', 'false'])}, '.', 0)",
        ])()

    def slice(self, n):
        part = lambda: self.pick(["", "", "1", "2", "-1", "-2", "5", "0", "100", "-100"])
        return f"{part()}:{part()}" + self.pick(["", "", ":" + self.pick(["1", "2", "-1", "-2", "3"])])

    def list(self, n):
        e = self.expression
        return self.pick([
            lambda: f"({e('list', n)})[{self.slice(n)}]", lambda: f"({e('list', n)} + {e('list', n)})", lambda: f"[{e('any', n)}, {e('integer', n)}]",
            lambda: f"({e('text', n)}).split({self.pick(['', self.leaf('text')])})", lambda: f"({e('text', n)}).splitlines()", lambda: f"({e('text', n)})|list",
            lambda: f"({e('list', n)})|{self.pick(['list', 'sort', 'unique', 'reverse', 'sort(reverse=true)', 'sort(case_sensitive=true)'])}|list",
            lambda: f"({e('list', n)})|map('{self.pick(['string', 'upper', 'length', 'int', 'tojson', 'first', 'default'])}')|list",
            lambda: f"({e('list', n)})|{self.pick(['select', 'reject'])}('{self.pick(['string', 'number', 'none', 'odd', 'defined', 'mapping', 'sequence'])}')|list",
            lambda: f"({e('list', n)})|{self.pick(['selectattr', 'rejectattr'])}('{self.pick(['name', 'age', 'city', 'x'])}')|list",
            lambda: f"({e('list', n)})|map(attribute='{self.pick(['name', 'age', 'city'])}')|list", lambda: f"({e('dict', n)}).{self.pick(['keys', 'values', 'items'])}()|list",
            lambda: f"({e('dict', n)})|{self.pick(['items', 'dictsort', 'list'])}|list", lambda: f"({e('text', n)}).{self.pick(['partition', 'rpartition'])}({e('text', 0)})",
            lambda: f"({e('list', n)})|batch({self.pick(['1', '2', '3'])})|list", lambda: f"({e('text', n)}).{self.pick(['split', 'rsplit'])}({e('text', 0)}, {self.pick(['0', '1', '2'])})",
        ])()

    def dict(self, n):
        e = self.expression
        return self.pick([
            lambda: f"{{'a': {e('any', n)}, {e('text', 0)}: {e('integer', n)}}}", lambda: f"dict({e('dict', n)}, z={e('any', n)})",
            lambda: f"({e('dict', n)}).get({e('text', 0)}, {e('dict', 0)})", lambda: f"({e('list', n)})|first", lambda: f"deep.x",
        ])()

    def boolean(self, n):
        e = self.expression
        kind = self.pick(["integer", "text", "list", "any"])
        return self.pick([
            lambda: f"({e(kind, n)} {self.pick(['==', '!=', '<', '<=', '>', '>='])} {e(kind, n)})", lambda: f"({e('any', n)} {self.pick(['in', 'not in'])} {e(self.pick(['list', 'dict', 'text']), n)})",
            lambda: f"(not {e('boolean', n)})", lambda: f"({e('boolean', n)} {self.pick(['and', 'or'])} {e('any', n)})",
            lambda: f"({e('any', n)} is {self.pick(['', 'not '])}{self.pick(['defined', 'none', 'string', 'number', 'mapping', 'iterable', 'sequence', 'boolean', 'integer', 'float', 'odd', 'even', 'true', 'upper', 'lower'])})",
            lambda: f"({e('text', n)}).{self.pick(['startswith', 'endswith'])}({e('text', 0)})",
            lambda: f"({e('text', n)}).{self.pick(['isdigit', 'isalpha', 'isspace', 'isupper', 'islower', 'isalnum', 'istitle'])}()",
        ])()

    def any(self, n):
        return self.expression(self.pick(["integer", "text", "list", "dict", "boolean"]), n)

    def snippet(self):
        e = self.expression
        choice = self.random.random()
        if choice < 0.72:
            return "{{ " + e("any", 3) + " }}"
        if choice < 0.8:
            return "{% for x in " + e("list", 2) + " %}{{ loop.index }}{{ x }}{{ '' if loop.last else ',' }}{% else %}none{% endfor %}"
        if choice < 0.86:
            return "{% for x in " + e("list", 1) + " if " + e("boolean", 1) + " %}{{ x|tojson }}{% endfor %}"
        if choice < 0.92:
            return "{% set x = " + e("any", 2) + " %}{% if " + e("boolean", 2) + " %}{% set x = " + e("any", 1) + " %}{% endif %}{{ x }}"
        if choice < 0.96:
            return "{% macro m(a, b=" + e("any", 1) + ") %}[{{ a }}|{{ b }}]{% endmacro %}{{ m(" + e("any", 1) + ") }}{{ m(b=" + e("any", 1) + ") }}"
        spaces = lambda: self.pick(["", " ", "\n", "\n  ", "  \n", "\t"])
        sign = lambda: self.pick(["", "", "-", "+"])
        return "".join(spaces() + self.pick(["x", "{%" + sign() + " if t " + sign() + "%}" + spaces() + "y" + spaces() + "{%" + sign() + " endif " + sign() + "%}",
                                             "{{" + self.pick(["", "-"]) + " i " + self.pick(["", "-"]) + "}}", "{#" + sign() + " c " + sign() + "#}"]) for _ in range(6))


class Scopes(Random):
    """Random programs that set and read a few names in scopes inside each other."""

    NAMES = ["a", "b", "i", "s", "ns.v"]

    def __init__(self, seed):
        super().__init__(seed)
        self.loops, self.macros = 0, 0

    def name(self):
        return self.pick(["a", "b", "i", "s"])

    def value(self):
        more = (["loop.index", "loop.last"] if self.loops else []) + (["m(1)"] if self.macros else [])
        return self.pick(["1", "'x'", "i", "s", "a", "b", "ns.v", "[a, b]", "(a, 2)", "a ~ b", "a or b"] + more)

    def body(self, depth, loops=None):
        before, self.loops = self.loops, self.loops if loops is None else loops
        text = "".join(self.statement(depth) for _ in range(self.random.randint(1, 3)))
        self.loops = before
        return text

    def statement(self, n):
        if n <= 0 or self.random.random() < 0.35:
            leaves = [lambda: "{{ " + self.pick([self.name() + " is defined", self.name(), self.name(), self.value()]) + " }};",
                      lambda: "{% set " + self.pick(self.NAMES) + " = " + self.value() + " %}", lambda: self.pick(["text ", "."])]
            leave = lambda: "{% if " + self.pick(["loop.last", "a", "b is defined"]) + " %}{% " + self.pick(["break", "continue"]) + " %}{% endif %}"
            return self.pick(leaves * 3 + ([leave] if self.loops else []))()
        return self.pick([self.condition, self.loop, self.macro, self.call, self.block])(n - 1)

    def condition(self, n):
        test = self.pick(["a is defined", "b", "i == 7", "not a"] + (["loop.first"] if self.loops else []))
        return "{% if " + test + " %}" + self.body(n) + self.pick(["", "{% elif b %}" + self.body(n)]) + self.pick(["", "{% else %}" + self.body(n)]) + "{% endif %}"

    def loop(self, n):
        test = self.pick(["", "", " if " + self.pick(["a", "i != 1", "b is defined"])])
        head = "{% for " + self.name() + " in " + self.pick(["l", "'xy'", "[]", "range(2)"]) + test + " %}"
        return head + self.body(n, 1) + self.pick(["", "{% else %}" + self.body(n)]) + "{% endfor %}"

    def macro(self, n):
        before, self.macros = self.macros, 0  # no macro that calls itself for ever
        body = self.body(n, 0)
        self.macros = before
        return "{% macro m(" + self.pick(["a", "a, b=i", "a, s=a"]) + ") %}" + body + "{% endmacro %}{{ m(" + self.pick(["", "1", "a=2"]) + ") }}"

    def call(self, n):
        head = self.pick([("", ""), ("(a)", "5"), ("(a=7)", ""), ("(a, b=a)", "3")])
        return "{% macro k() %}<{{ caller(" + head[1] + ") }}>{% endmacro %}{% call" + head[0] + " k() %}" + self.body(n, 0) + "{% endcall %}"

    def block(self, n):
        return self.pick([lambda: "{% set " + self.pick(self.NAMES) + " %}" + self.body(n) + "{% endset %}", lambda: "{% filter upper %}" + self.body(n) + "{% endfilter %}",
                          lambda: "{% with a = " + self.value() + ", b = " + self.value() + " %}" + self.body(n) + "{% endwith %}",
                          lambda: "{% generation %}" + self.body(n, 0) + "{% endgeneration %}"])()

    def program(self):
        self.macros = 1
        return "{% set ns = namespace(v=0) %}{% macro m(x) %}[{{ a }}{{ x }}]{% endmacro %}" + "".join(self.statement(4) for _ in range(3)) + "{{ a }}{{ b }}{{ i }}{{ s }}{{ ns.v }}"


def random_snippets(seed, count):
    source = Random(seed)
    return [source.snippet() for _ in range(count)]


def random_programs(seed, count):
    source = Scopes(seed)
    return [source.program() for _ in range(count)]
