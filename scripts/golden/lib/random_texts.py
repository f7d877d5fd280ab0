"""Random texts in many scripts, out of word lists written here. The same seed gives the same texts."""
import random
import unicodedata

SCRIPTS = {
    "english": "the a of and to in is it that was for on with as at by from this have not are be or an which you all were her his they "
               "time people water light house river stone garden morning evening letter window summer winter bread music number system "
               "Don't it's we'll they're I'd you've she'd won't HE'S Paris London Model tensor gradient language compute training data",
    "latin": "café naïve garçon élève où être façon cœur señor niño mañana corazón über Straße größer schön Mädchen fünf Øl både årsag "
             "żółć łódź ćma źródło příliš žluťoučký kůň úpěl ďábelské ódy İstanbul ığdır şeker coração não avião Việt Nam tiếng người được",
    "combining": "cafe\u0301 nai\u0308ve e\u0301le\u0300ve A\u030a n\u0303 o\u0302\u0301 u\u0308\u0304 q\u0323\u0307 \u0301alone a\u0300\u0301\u0302 ﬁn ﬀ Ⅷ ² ½ № ™ Å Ω",
    "greek": "καλημέρα κόσμε η θάλασσα και το φως του ήλιου στο παλιό σπίτι ΑΘΗΝΑ λόγος ψυχή ἀρχή ᾧ",
    "cyrillic": "привет мир дом река утро вечер зима лето книга письмо окно хлеб музыка число її ґанок український щастя ЁЖ ёлка Ѣ",
    "arabic": "مرحبا بالعالم البيت النهر صباح مساء كتاب رسالة خبز موسيقى عدد نظام اَلسَّلَامُ فارسی گفتگو پنجره اردو ٣٤٥ ۱۲۳",
    "hebrew": "שלום עולם בית נהר בוקר ערב ספר מכתב לחם שִׁיר מספר",
    "devanagari": "नमस्ते दुनिया घर नदी सुबह शाम किताब पत्र रोटी संगीत संख्या क्षत्रिय श्री ज़मीन १२३ हिन्दी",
    "thai": "สวัสดี โลก บ้าน แม่น้ำ เช้า เย็น หนังสือ จดหมาย ขนมปัง ดนตรี กำลัง ที่นี่ ๑๒๓",
    "chinese": "你好 世界 房子 河流 早上 晚上 书 信 面包 音乐 数字 系统 我们在这里学习语言模型 今天天气很好 漢字 龍 龜 𠀀 𪚥",
    "japanese": "こんにちは 世界 家 川 朝 夕方 本 手紙 パン 音楽 数 カタカナ ひらがな 学習する 東京タワー ｶﾞ がぎぐ か\u3099 ー 々",
    "korean": "안녕하세요 세계 집 강 아침 저녁 책 편지 빵 음악 숫자 한국어 각 ㄱㄴㄷ \u1112\u1161\u11ab",
    "emoji": "😀 😂 👍 👍🏽 ❤️ 🔥 👨\u200d👩\u200d👧\u200d👦 👩🏾\u200d💻 🏳️\u200d🌈 🇫🇷 🇯🇵 1️⃣ ☃ ✂︎ 🧑\u200d🚀",
    "numbers": "0 1 12 123 1234 12345678 3.14159 -2.5e-8 1,000,000 0x1F 2024-05-17 99% $42.00 1/2 10^6 007 18:45:09",
    "code": "def main(argv): return self._value[i+1] if(x!=y){ std::vector<int>&& operator->() #include <cstdio> //comment /*a*/ a_b camelCase "
            "lambda x:x**2 \"quoted\" 'single' `tick` {} [] () => != == <= && || ++ -- \\n \\t %s {0} @decorator </div> <br/> &nbsp; https://example.org/a?b=c&d=e#f",
    "punctuation": ". , ; : ! ? ... … — – - _ ( ) [ ] { } « » “ ” ‘ ’ ' \" / \\ | @ # $ % ^ & * + = < > ~ ` ¿ ¡ § ¶ † ‡ • ° ± × ÷ ▁ ▁▁ ▁a a▁b Ġ Ġa <0x41> <0xE4> <0xZZ>",
    "rare": "ꙮ ᚠᚢᚦ 𐍈 𓀀 𝔘𝔫𝔦 𝟘𝟙 ⠓⠑⠇ ꜳ ᐃᓄᒃ ᎣᏏᏲ አማርኛ ქართული Հայերեն ລາວ မြန်မာ ភាសា བོད ᠮᠣᠩ ತಕ தமிழ் తెలుగు മല ગુજ ਪੰਜ বাংলা ଓଡ଼",
    "controls": "\u0000 \u0001 \u001b[0m \u007f \u0085 \u00ad \u200b \u200c \u200d \u200e \u2060 \ufeff \ufffd \ufffe \U0010ffff \u061c \u180e \ue000",
}
SPACES = [" "] * 12 + ["  ", "   ", "    ", "\n", "\n", "\n\n", "\n\n\n", "\r\n", "\t", "\t\t", " \n", "\n ", "\u00a0", "\u2003", "\u3000", "\u2028", "\u000b", "\u000c", "\u1680", "\u202f", " " * 17]
LIKELY = ["english"] * 5 + ["latin", "code", "numbers", "punctuation"]


def words_of(script):
    return SCRIPTS[script].split(" ")


def sentence(chance, tokens):
    """Words of one script or of several, with usual spaces or odd ones, and now and then a special token spelled out."""
    scripts = [chance.choice(list(SCRIPTS) + LIKELY)] if chance.random() < 0.7 else chance.choices(list(SCRIPTS) + LIKELY, k=3)
    usual = chance.random() < 0.6
    dense = scripts[0] in ("thai", "chinese", "japanese") and chance.random() < 0.7
    parts = []
    for _ in range(chance.randrange(1, 16)):
        parts.append(chance.choice(words_of(chance.choice(scripts))))
        if tokens and chance.random() < 0.06:
            parts.append(chance.choice(["", " ", "  ", "\n", "\t "]) + chance.choice(tokens) + chance.choice(["", " ", "  ", " \n", "x"]))
        if dense or chance.random() < 0.1:
            continue
        parts.append(" " if usual else chance.choice(SPACES) * chance.choice([1, 1, 1, 2, 3]))
    if chance.random() < 0.5 and parts[-1].isspace():
        parts.pop()
    return (chance.choice(SPACES) if chance.random() < 0.15 else "") + "".join(parts)


def any_characters(chance):
    """Characters of all planes that every version of Unicode in use knows."""
    ranges = [range(0x80), range(0x800), range(0xd800), range(0xe000, 0x110000)]
    picked = (chr(chance.choice(chance.choice(ranges))) for _ in range(chance.randrange(1, 20)))
    return "".join(c for c in picked if unicodedata.ucd_3_2_0.category(c) != "Cn")


def texts(seed, count, tokens=()):
    """`count` texts, all different; the first ones are the shortest of their kinds."""
    chance = random.Random(seed)
    found = dict.fromkeys(["", " ", "  ", "\n", "\t", "a", " a", "a ", " a ", "▁", "▁a", "\u0000", "é", "e\u0301", "中", "😀", "\U0010ffff", "a" * 300, " " * 100, "\n" * 40,
                           "ab " * 60, "中文" * 60, "😀" * 30] + list(tokens) + [f" {t}" for t in tokens] + [f"{t} x" for t in tokens] + [f"x{t}" for t in tokens])
    while len(found) < count:
        text = any_characters(chance) if chance.random() < 0.06 else sentence(chance, tokens)
        if len(text.encode()) < 400:
            found[text] = None
    return list(found)[:count]
