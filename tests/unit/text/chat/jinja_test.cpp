#include "text/jinja/template.h"

#include "base/error.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace dllm::text::jinja {
namespace {

Entries variables(const char* json = "{}") {
  Entries entries;
  const Json object = Json::parse(json);
  for (const auto& [name, value] : object.items()) {
    entries.emplace_back(Value(name), from_json(value, {Mark::kData, false}));
  }
  return entries;
}

std::string render(std::string_view source, const char* json = "{}") {
  return Template(source, "t").render(variables(json)).bytes();
}

Error refused(std::string_view source, const char* json = "{}", const Limits& limits = {}) {
  try {
    const std::string text = Template(source, "t").render(variables(json), limits).bytes();
    ADD_FAILURE() << source << " rendered " << text.substr(0, 200);
  } catch (const Error& error) {
    return error;
  }
  return Error(Code::ok, "");
}

// Pairs checked against the reference engine (specification F10).
TEST(Jinja, RendersAsTheReference) {
  const std::pair<const char*, const char*> rows[] = {
      {"{% if true %}\nA\n{% endif %}\nB", "A\nB"},
      {"  {% if true %}x{% endif %}  \n y", "x  \n y"},
      {"{{ 'a' ~ 1 ~ none }} {{ -7 % 3 }} {{ 7 // 2 }} {{ 7 / 2 }} {{ 2 ** 3 }} {{ 1 < 2 and not "
       "false }}",
       "a1None 2 3 3.5 8 True"},
      {"{{ [1,2,3][::-1] }} {{ {'b':'\u00e9<','a':1} | tojson }} {{ 'a,b,c'.split(',')[-1] }}",
       "[3, 2, 1] {\"b\": \"\u00e9<\", \"a\": 1} c"},
      {"{% set ns = namespace(x=0) %}{% for i in range(3) %}{% set ns.x = ns.x + i %}{% endfor "
       "%}{{ ns.x }}",
       "3"},
      {"{% for k, v in {'b':1,'a':2}.items() %}{{k}}={{v}}{{ ',' if not loop.last }}{% endfor %}",
       "b=1,a=2"},
      {"{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break "
       "%}{% endif %}{{ i }}{% endfor %}",
       "02"},
      {"{% macro m(a,b=2) %}{{a+b}}{% endmacro %}{{ m(1) }} {{ m(1,b=5) }}|{{ u is defined }}|{{ u "
       "}}|{{ u|default('d') }}",
       "3 6|False||d"}};
  for (const auto& [source, want] : rows) EXPECT_EQ(render(source), want) << source;
}

// Found by scripts/differential; what Jinja2 3.1.6 under Python 3.11 makes of them.
TEST(Jinja, ElseIsForLoopsWithoutAWholeRound) {
  const std::pair<const char*, const char*> rows[] = {
      {"{% for i in [1, 2] %}{% break %}{% else %}none{% endfor %}", "none"},
      {"{% for i in [1, 2] %}{{ i }}{% continue %}{% else %}none{% endfor %}", "12none"},
      {"{% for i in [1, 2] %}{% if i == 2 %}{% break %}{% endif %}{% else %}none{% endfor %}", ""},
      {"{% for i in [] %}{% else %}none{% endfor %}", "none"},
      {"{% for g in [{'a':2,'b':'x'},{'a':1,'b':'y'},{'a':2,'b':'z'}]|groupby('a') %}"
       "{{ g.grouper }}{{ g.list|map(attribute='b')|join }}{{ g[0] }}{{ g[1]|length }}"
       "{{ g['list']|length }};{% endfor %}",
       "1y111;2xz222;"},
      {"{% for a, l in [{'a':2}]|groupby('a') %}{{ a }}{{ l|length }}{% endfor %}", "21"},
      {"{{ [(1, [2])][0].list is defined }}", "False"},
      {"{% for i in [1, 2] if i > 5 %}{{ i }}{% else %}none{% endfor %}", "none"}};
  for (const auto& [source, want] : rows) EXPECT_EQ(render(source), want) << source;
}

TEST(Jinja, ReprEscapesWhatPythonDoesNotPrint) {
  const std::pair<const char*, const char*> rows[] = {{"a\\u200db", "['a\\u200db']"},
                                                      {"\\u00a0\\u00ad", "['\\xa0\\xad']"},
                                                      {"\\u3000", "['\\u3000']"},
                                                      {"\\udb40\\udc41", "['\\U000e0041']"},
                                                      {"\\ue000 \\u0301", "['\\ue000 \u0301']"},
                                                      {"\\u2028", "['\\u2028']"}};
  for (const auto& [text, want] : rows) {
    const std::string json = std::string(R"({"x": [")") + text + R"("]})";
    EXPECT_EQ(render("{{ x }}", json.c_str()), want) << text;
  }
}

TEST(Jinja, WordsAreThoseOfPython) {
  const char* json = R"({"x": "na\u00efve 中文 👩\u200d👩 a\u0301b _x 4\u00bd\u203f5 ½"})";
  EXPECT_EQ(render("{{ x|wordcount }}", json), "8");
}

TEST(Jinja, NumbersAreThoseOfPython) {
  const std::pair<const char*, const char*> rows[] = {{"0 % -2.5", "-0.0"},
                                                      {"-3 % 1.0", "0.0"},
                                                      {"(0 / -2) % 4", "0.0"},
                                                      {"5.5 % -2", "-0.5"},
                                                      {"-0.5 // 4", "-1.0"},
                                                      {"1e16 // -3", "-3333333333333335.0"},
                                                      {"1e15 // (0.1 + 0.2)", "3333333333333332.0"},
                                                      {"0.0 // -3", "-0.0"},
                                                      {"'1_000'|int", "1000"},
                                                      {"'1__0'|int", "0"},
                                                      {"'_1'|int(7)", "7"},
                                                      {"' +5 '|int", "5"},
                                                      {"'-3.9'|int", "-3"},
                                                      {"'+-5'|int", "0"},
                                                      {"'0x1F'|int", "0"},
                                                      {"'0x1F'|int(0, 16)", "31"},
                                                      {"'-0b101'|int(base=2)", "-5"},
                                                      {"'inf'|int(3)", "3"},
                                                      {"'inf'|float", "inf"},
                                                      {"'-Infinity'|float", "-inf"},
                                                      {"'nan'|float", "nan"},
                                                      {"'1_0.5'|float", "10.5"},
                                                      {"none|int", "0"}};
  for (const auto& [source, want] : rows)
    EXPECT_EQ(render("{{ " + std::string(source) + " }}"), want) << source;
  for (const char* source :
       {"nope|int", "nope|int(7)", "nope|float", "nope|indent", "nope[1:]", "0 ** -1", "0.0 ** -1",
        "(-3) ** 2.5", "1e20|int", "'1e20'|int", "'99999999999999999999'|int"}) {
    EXPECT_NE(refused("{{ " + std::string(source) + " }}").text(), "") << source;
  }
}

// datetime.now() of Python has no zone.
TEST(Jinja, TheTimeOfNowHasMicrosecondsAndNoZone) {
  EXPECT_EQ(render("[{{ strftime_now('%Z') }}{{ strftime_now('%z%%Z') }}{{ strftime_now('') }}]"),
            "[%Z]");
  EXPECT_EQ(render("{{ strftime_now('%f')|length }}{{ strftime_now('%f').isdigit() }}"), "6True");
  EXPECT_EQ(render("{{ strftime_now('%Y-%m')|length }}"), "7");
}

TEST(Jinja, CapitalsAreThoseOfPython) {
  const std::pair<const char*, const char*> rows[] = {{"'ß'.capitalize()", "Ss"},
                                                      {"'ß'.upper()", "SS"},
                                                      {"'ß'|title", "SS"},
                                                      {"'ﬁx'|upper", "FIX"},
                                                      {"'ﬁx'|capitalize", "Fix"},
                                                      {"'ﬁx ﬄ'.title()", "Fix Ffl"},
                                                      {"'ﬁx'|title", "FIx"},
                                                      {"'ǆa'.title()", "ǅa"},
                                                      {"'ǆ'|upper", "Ǆ"},
                                                      {"'ŉ'|upper", "ʼN"},
                                                      {"'ᾳ'.upper()", "ΑΙ"},
                                                      {"'ᾳ'.title()", "ᾼ"},
                                                      {"'ẞ'|upper", "ẞ"},
                                                      {"'İ'|upper", "İ"},
                                                      {"'½'.isdigit()", "False"},
                                                      {"'²⑴١'.isdigit()", "True"},
                                                      {"'½'.isalnum()", "True"},
                                                      {"'Ⅷ'.isdigit()", "False"},
                                                      {"2[::2]", ""},
                                                      {"2.5[1:]", ""},
                                                      {"none[:1]", ""},
                                                      {"{'a': 1}[:1]", ""},
                                                      {"{'a': 1}|attr('a')", ""},
                                                      {"'x'|attr('y')", ""}};
  for (const auto& [source, want] : rows)
    EXPECT_EQ(render("{{ " + std::string(source) + " }}"), want) << source;
}

TEST(Jinja, CountsCharactersNotBytes) {
  EXPECT_EQ(render("{{ x|length }} {{ x[1] }} {{ x[::-1] }} {{ x[-2:] }} {{ x.find('o') }}",
                   R"({"x": "möo"})"),
            "3 ö oöm öo 2");
}

TEST(Jinja, WhiteSpaceAroundTags) {
  EXPECT_EQ(render("a \n {%- if 1 -%} \n b {% endif %}\n\nc"), "ab \nc");
  EXPECT_EQ(render("a\n  {# note #}\nb"), "a\nb");
  EXPECT_EQ(render("a\n  {%+ if 1 %}b{% endif +%}\nc"), "a\n  b\nc");
  EXPECT_EQ(render("x\r\ny\r\n"), "x\ny");
  EXPECT_EQ(render("{{ {'a': {'b': 1}} }}"), "{'a': {'b': 1}}");
}

TEST(Jinja, UndefinedPrintsNothingButIsNotUsed) {
  EXPECT_EQ(render("[{{ a }}{{ m.b }}{{ m['c'] }}]{{ a|length }}{{ 'x' in a }}", R"({"m": {}})"),
            "[]0False");
  EXPECT_NE(refused("{{ a.b }}").text().find("a is undefined"), std::string::npos);
  EXPECT_NE(refused("{{ 'x' + a }}").text().find("a (undefined)"), std::string::npos);
  EXPECT_NE(refused("{{ f(1) }}").text().find("f is undefined"), std::string::npos);
}

TEST(Jinja, ErrorsNameLineAndExpression) {
  const Error used = refused("line\n\n{{ messages[0].foo.bar }}", R"({"messages": [{}]})");
  EXPECT_EQ(used.code(), Code::invalid_argument);
  EXPECT_EQ(used.text(), "t: line 3: {{ messages[0].foo.bar }}: foo is undefined, it has no bar");
  EXPECT_NE(refused("a\n{% if x %}\nb").text().find("line 3"), std::string::npos);
  EXPECT_NE(refused("{{ 1 + }}").text().find("line 1: {{ 1 + }}: expected a value"),
            std::string::npos);
  EXPECT_NE(refused("{{ raise_exception('no ' ~ 'way') }}").text().find("no way"),
            std::string::npos);
  EXPECT_EQ(refused("{% include 'x' %}").code(), Code::unimplemented);
  const Error filter = refused("{{ 'x'|uper }}");
  EXPECT_EQ(filter.code(), Code::unimplemented);
  EXPECT_NE(filter.hint().find("upper"), std::string::npos);
  EXPECT_NE(refused("{{ 'x'|trim('a', 'b') }}").text().find("takes 1 arguments, not 2"),
            std::string::npos);
  EXPECT_EQ(refused("{% break %}").code(), Code::invalid_argument);
  EXPECT_EQ(refused("{{ 9223372036854775807 + 1 }}").code(), Code::unimplemented);
  EXPECT_NE(refused("{{ 9223372036854775808 }}").text().find("is too large"), std::string::npos);
}

TEST(Jinja, HostileTemplatesEnd) {
  const char* sources[] = {
      "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
      "{{ 'a' * 1000000000000 }}",
      "{{ [1] * 1000000000000 }}",
      "{{ 'x'|center(9000000000) }}",
      "{{ [1]|tojson(indent=9000000000) }}",
      "{{ 'a'|indent(9000000000, true) }}",
      "{{ range(1000000000) }}",
      "{{ [1]|slice(9000000000)|length }}",
      "{{ [1]|batch(9000000000, 0)|list|length }}",
      "{% set n = namespace(x='ab') %}{% for i in range(1000) %}{% set n.x = n.x ~ n.x %}{% endfor "
      "%}",
      "{% set n = namespace(x='ab') %}{% for i in range(1000) %}{% set n.x = n.x|replace('a', "
      "'aa') %}{% endfor %}",
      "{% set n = namespace(x=[1]) %}{% for i in range(90) %}{% set n.x = [n.x, n.x] %}{% endfor "
      "%}{{ n.x }}",
      "{% set n = namespace(x=[1]) %}{% for i in range(99999) %}{% set n.x = [n.x] %}{% endfor %}",
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% macro f(n) %}{% if n > 0 %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(40) "
      "}}",
  };
  for (const char* source : sources) {
    EXPECT_EQ(refused(source).code(), Code::resource_exhausted) << source;
  }
  const std::string many(100'000, '(');
  EXPECT_EQ(refused("{{ " + many + "1" + std::string(100'000, ')') + " }}").code(),
            Code::resource_exhausted);
  std::string sum = "{{ 1";
  for (int i = 0; i < 100'000; ++i) sum += "+1";
  EXPECT_EQ(refused(sum + " }}").code(), Code::resource_exhausted);
  std::string tags;
  for (int i = 0; i < 10'000; ++i) tags += "{% if 1 %}";
  EXPECT_EQ(refused(tags).code(), Code::resource_exhausted);
}

TEST(Jinja, NamespacesHoldNoFunctions) {
  // A function could outlive the variables it sees.
  EXPECT_EQ(refused("{% set n = namespace() %}{% macro f() %}{% set n.g = caller %}{% endmacro "
                    "%}{% call f() %}{% endcall %}")
                .code(),
            Code::invalid_argument);
  EXPECT_EQ(refused("{% set n = namespace() %}{% set n.me = [n] %}").code(),
            Code::invalid_argument);
}

// Who wrote a byte survives everything a template does to a text.
TEST(Jinja, MarksFollowTheBytes) {
  const char* sources[] = {
      "{{ m.content }}",
      "a{{ 'b' + m.content + 'c' }}",
      "{{ m.content|upper }}{{ m.content|title }}",
      "{{ m.content[1:] }}{{ m.content[::-1] }}{{ m.content[0] }}",
      "{{ m.content.split('+')|join('/') }}",
      "{{ 'x'.join([m.content, m.content]) }}",
      "{{ m|tojson }}{{ [m.content] }}{{ m.content|tojson(indent=2) }}",
      "{{ '%s %r'|format(m.content, m.content) }}{{ '{}'.format(m.content) }}",
      "{{ m.content|replace('+', '-')|trim|indent(3)|center(40) }}",
      "{{ 'q'|replace('q', m.content) }}",
      "{% set x %}<{{ m.content }}>{% endset %}{{ x|e }}",
      "{% macro f(t) %}{{ t }}{% endmacro %}{{ f(m.content) }}",
      "{% filter lower %}{{ m.content }}{% endfilter %}",
      "{% for c in m.content %}{{ c }}{% endfor %}",
      "{{ [m.content, 'a']|sort|reverse|list|first }}",
  };
  const Entries given = {
      {Value(std::string("m")),
       from_messages(Json::parse(R"([{"role": "user", "content": "Ö+Ö"}])")).items()[0]}};
  for (const char* source : sources) {
    const MarkedText text = Template(source, "t").render(given);
    size_t seen = 0;
    for (size_t at = 0; at < text.size(); ++at) {
      // Only the message holds letters beyond ASCII.
      if (static_cast<unsigned char>(text.bytes()[at]) < 0x80) continue;
      ++seen;
      EXPECT_EQ(text.mark_at(at).message, 0) << source << " at " << at << ": " << text.bytes();
    }
    EXPECT_GT(seen, 0u) << source;
  }
}

TEST(Jinja, GenerationBlocksMarkWhatIsSpoken) {
  const Template made("a{% generation %}b{{ 'c' }}{% endgeneration %}d", "t");
  EXPECT_TRUE(made.has_generation());
  const MarkedText text = made.render({});
  EXPECT_EQ(text.bytes(), "abcd");
  EXPECT_FALSE(text.mark_at(0).spoken);
  EXPECT_TRUE(text.mark_at(1).spoken);
  EXPECT_TRUE(text.mark_at(2).spoken);
  EXPECT_FALSE(text.mark_at(3).spoken);
}

} // namespace
} // namespace dllm::text::jinja
