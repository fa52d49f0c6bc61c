// SPDX-License-Identifier: Apache-2.0

package render

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Style is how text looks; the other formats look the same everywhere.
type Style struct {
	Colour bool
	Width  int // columns, see [Columns]
}

// The widths of text, in columns. Narrower, no table fits; wider, prose is hard to read.
const (
	defaultWidth = 100
	minWidth     = 60
	maxProse     = 120
)

// Columns is how wide text is on a terminal of so many columns; 0 if it goes elsewhere.
func Columns(terminal int) int {
	if terminal <= 0 {
		return defaultWidth
	}
	return max(terminal, minWidth)
}

func (s Style) columns() int { return Columns(s.Width) }

// prose writes a labelled text, wrapped at words; further lines stand under the first.
func (t *text) prose(label, colour, words string) {
	indent := strings.Repeat(" ", utf8.RuneCountInString(label))
	for i, line := range wrap(words, min(t.style.columns(), maxProse)-len(indent)) {
		if i > 0 {
			label = indent
		}
		t.line("%s%s", label, t.paint(colour, line))
	}
}

// remark writes a text that carries its label with it in its colour.
func (t *text) remark(colour, words string) {
	for i, line := range wrap(words, min(t.style.columns(), maxProse)-2) {
		if i > 0 {
			t.line("  %s", t.paint(colour, line))
			continue
		}
		t.line("%s", t.paint(colour, line))
	}
}

// wrap breaks text at blanks into lines of so many columns at most. A longer word has a line of its own,
// and a number stays with its unit.
func wrap(words string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.SplitSeq(unbroken.ReplaceAllString(words, "$1\u00a0$2"), " ") {
		if line != "" && visible(line)+1+visible(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	lines = append(lines, line)
	for i := range lines {
		lines[i] = strings.ReplaceAll(lines[i], "\u00a0", " ")
	}
	return lines
}

// unbroken are places at which no line ends: between a number and its unit, and before a percent sign.
var unbroken = regexp.MustCompile(`(\d|[<>≥×]) (µs|ms|s\b|min\b|h\b|%|\d)`)

// visible is how many columns text takes: our own colours take none.
func visible(s string) int { return utf8.RuneCountInString(ours.ReplaceAllString(s, "")) }

// fit leaves columns out of a table until it is no wider than the page: those that may be, by their headers, in their
// order. It returns what is left, and the names of what is not.
func (t *text) fit(rows [][]string, may ...string) (left [][]string, out []string) {
	for tableWidth(rows) > t.style.columns() && len(may) > 0 {
		i := slices.Index(rows[0], may[0])
		if i >= 0 {
			out = append(out, may[0])
			narrow := make([][]string, len(rows))
			for n, row := range rows {
				narrow[n] = slices.Concat(row[:i], row[i+1:])
			}
			rows = narrow
		}
		may = may[1:]
	}
	return rows, out
}

// gutter is between columns.
const gutter = "  "

func columnWidths(rows [][]string) []int {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

func tableWidth(rows [][]string) int {
	sum := 0
	for _, w := range columnWidths(rows) {
		sum += w + len(gutter)
	}
	return sum - len(gutter)
}
