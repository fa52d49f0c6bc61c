// SPDX-License-Identifier: Apache-2.0

// Package printable makes text that came from elsewhere (workers, stores, files) fit for a terminal:
// what would move its cursor, change its colours or turn the direction of writing is shown as an escape.
package printable

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text keeps lines and tabs.
func Text(s string) string { return escape(s, "\n\t") }

// Line is one line, whatever s is.
func Line(s string) string { return escape(strings.Join(strings.Fields(s), " "), "") }

func escape(s, keep string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsGraphic(r) || strings.ContainsRune(keep, r):
			b.WriteRune(r)
		case r < utf8.RuneSelf:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// JSON escapes in a JSON document what encoding/json leaves as it is and a terminal would obey. The document
// means the same.
func JSON(document []byte) []byte {
	var b []byte
	for _, r := range string(document) {
		switch {
		case unicode.IsGraphic(r) || r == '\n' || r == '\t' || r == '\r':
			b = utf8.AppendRune(b, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			b = fmt.Appendf(b, `\u%04x\u%04x`, high, low)
		default:
			b = fmt.Appendf(b, `\u%04x`, r)
		}
	}
	return b
}

// Writer writes [Text] to w. What is written to it in one call must end with a whole character.
func Writer(w io.Writer) io.Writer { return writer{w} }

type writer struct{ to io.Writer }

func (w writer) Write(p []byte) (int, error) {
	_, err := io.WriteString(w.to, Text(string(p)))
	return len(p), err
}
