// SPDX-License-Identifier: Apache-2.0

package printable

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"plain, 10 µs – “quoted” …":     "plain, 10 µs – “quoted” …",
		"two\nlines\tand a tab":         "two\nlines\tand a tab",
		"\x1b]0;title\a\x1b[2J\rover":   `\x1b]0;title\x07\x1b[2J\x0dover`,
		"\u009b31m and \x7f":            `\u009b31m and \x7f`,
		"\u202egnp.exe\u2066":           `\u202egnp.exe\u2066`,
		"not \xff UTF-8, but \ufffd is": `not \xff UTF-8, but ` + "\ufffd is",
	} {
		if got := Text(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := Line("a\n\x1b[A b"); got != `a \x1b[A b` {
		t.Errorf("%q", got)
	}
}

func FuzzPrintable(f *testing.F) {
	f.Add("\x1b[31m\u009b\u202e\xff\n")
	f.Fuzz(func(t *testing.T, s string) {
		for _, r := range Text(s) {
			if !unicode.IsGraphic(r) && r != '\n' && r != '\t' {
				t.Fatalf("%q has %q", s, r)
			}
		}
		if strings.ContainsAny(Line(s), "\n\t") {
			t.Fatalf("%q is more than a line", s)
		}
		if !utf8.ValidString(s) {
			return // encoding/json replaces what is not UTF-8
		}
		document, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var back string
		escaped := JSON(document)
		if err := json.Unmarshal(escaped, &back); err != nil || back != s {
			t.Fatalf("%q came back as %q: %v", s, back, err)
		}
		for _, r := range string(escaped) {
			if !unicode.IsGraphic(r) {
				t.Fatalf("%s has %q", escaped, r)
			}
		}
	})
}
