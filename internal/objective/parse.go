// SPDX-License-Identifier: Apache-2.0

package objective

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/plainfile"
	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/workload"
)

// SyntaxError is text that is no objective.
type SyntaxError struct {
	Column int // in characters, from 1, of where the problem begins
	Text   string
}

func (e *SyntaxError) Error() string { return e.Text }

// forms is what an objective may look like.
const forms = "want KIND TIME METRIC < DURATION, [KIND] errors < SHARE or rate >= RATE, as in 'READ response p99 < 5ms', 'errors < 0.1%', 'rate >= 99%' or 'rate >= 50000/s'"

// Parse reads an objective, as in "READ response p99 < 5ms", "errors < 0.1%" or "rate >= 99%". An error is a [*SyntaxError].
func Parse(text string) (Objective, error) {
	p := parser{words: split(text), end: utf8.RuneCountInString(text) + 1}
	o, err := p.objective()
	if err != nil {
		return Objective{}, err
	}
	return o, nil
}

// word is a part of the text, and where that begins.
type word struct {
	text   string
	column int
}

// split splits text into its words and its comparison.
func split(text string) (words []word) {
	const word0, comparison, space = 0, 1, 2
	before, column := space, 0
	for _, r := range text {
		column++
		class := word0
		switch {
		case unicode.IsSpace(r):
			class = space
		case strings.ContainsRune("<>=", r):
			class = comparison
		}
		switch {
		case class == space:
		case class == before:
			words[len(words)-1].text += string(r)
		default:
			words = append(words, word{string(r), column})
		}
		before = class
	}
	return words
}

type parser struct {
	words []word
	end   int // the column behind the text
}

// fail says that something is wrong with the word at i, or with that there is none.
func (p *parser) fail(i int, format string, args ...any) error {
	column := p.end
	if i < len(p.words) {
		column = p.words[i].column
	}
	return &SyntaxError{column, fmt.Sprintf(format, args...)}
}

func (p *parser) objective() (o Objective, err error) {
	at := slices.IndexFunc(p.words, func(w word) bool { return strings.ContainsAny(w.text, "<>=") })
	if at < 0 {
		return o, p.fail(len(p.words), "there is no limit: %s", forms)
	}
	if at == 0 {
		return o, p.fail(0, "%s", forms)
	}
	on := p.words[:at]
	switch last := on[len(on)-1].text; {
	case len(on) <= 2 && (last == Errors || last == Rate):
		o = Objective{Kind: AllKinds, Metric: last}
		if len(on) == 2 {
			o.Kind = on[0].text
		}
	case len(on) == 3:
		o = Objective{Kind: on[0].text, Time: on[1].text}
	default:
		return o, p.fail(0, "%s", forms)
	}
	if len(on) > 1 {
		if err := p.oneOf(0, o.Kind, kinds()); err != nil {
			return o, err
		}
	}
	want := "<"
	switch {
	case o.Time != "":
		if err := p.oneOf(1, o.Time, []string{Service, Response}); err != nil {
			return o, err
		}
		if err := p.oneOf(2, on[2].text, titles()); err != nil {
			return o, err
		}
		o.Metric = measure.Metrics[slices.Index(titles(), on[2].text)].Name
	case o.Metric == Rate:
		want = ">="
	}
	if is := p.words[at].text; is != want {
		return o, p.fail(at, "%q: an objective on %s is written with %s", is, o.Name(), want)
	}
	if len(p.words) == at+1 {
		return o, p.fail(at+1, "%s: there is no limit behind it", want)
	}
	var b strings.Builder
	for _, w := range p.words[at+1:] {
		b.WriteString(w.text) // "5 ms" is 5ms
	}
	if problem := o.setLimit(b.String()); problem != "" {
		return o, p.fail(at+1, "%q: %s", b.String(), problem)
	}
	return o, nil
}

func (p *parser) oneOf(i int, text string, known []string) error {
	if slices.Contains(known, text) {
		return nil
	}
	return p.fail(i, "%q: want one of %s", text, strings.Join(known, ", "))
}

// titles are the names of the metrics that a latency has.
func titles() (all []string) {
	for _, m := range measure.Metrics {
		all = append(all, m.Title())
	}
	return all
}

// kinds are the kinds that an objective may be about.
func kinds() []string {
	all := []string{AllKinds}
	for k := range workload.Kind(workload.Kinds) {
		all = append(all, k.String())
	}
	return all
}

// Continue completes the last word of a text that is the beginning of an objective, or, behind a blank, adds the next one. It returns
// the whole texts; none if this is no beginning.
func Continue(begun string) (all []string) {
	words := strings.Fields(begun)
	if len(words) > 0 && !strings.HasSuffix(begun, " ") {
		words = words[:len(words)-1]
	}
	before := strings.Join(append(words, ""), " ")
	for _, next := range following(words) {
		if text := before + next; strings.HasPrefix(text, strings.TrimLeft(begun, " ")) {
			all = append(all, text)
		}
	}
	return all
}

// following are the words that may come behind some.
func following(words []string) []string {
	var o Objective
	switch n := len(words); {
	case n == 0:
		return append(kinds(), Errors, Rate)
	case words[0] == Errors || words[0] == Rate:
		words = append([]string{AllKinds}, words...)
	case !slices.Contains(kinds(), words[0]):
		return nil
	}
	o.Kind, words = words[0], words[1:]
	if len(words) > 0 && (words[0] == Service || words[0] == Response) {
		o.Time, words = words[0], words[1:]
	}
	on, comparison := []string{Service, Response, Errors, Rate}, "<"
	if o.Latency() {
		on = titles()
	} else if len(words) > 0 && words[0] == Rate {
		comparison = ">="
	}
	switch n := len(words); {
	case n == 0:
		return on
	case !slices.Contains(on, words[0]):
		return nil
	case n == 1:
		return []string{comparison}
	case n > 2 || words[1] != comparison:
		return nil
	case o.Latency():
		return []string{"1ms", "5ms", "10ms", "100ms"}
	case words[0] == Errors:
		return []string{"0.1%", "1%"}
	case o.Kind == AllKinds:
		return []string{"99%", "50000/s"}
	}
	return []string{"50000/s"}
}

// setLimit reads the limit; it returns what is wrong with it.
func (o *Objective) setLimit(text string) (problem string) {
	if o.Latency() {
		d, err := time.ParseDuration(text)
		if err != nil || d < time.Microsecond || d > time.Hour {
			return "want a time of 1us to 1h, as in 5ms"
		}
		o.LimitUS = d.Microseconds()
		return ""
	}
	var err error
	if rate, perSecond := strings.CutSuffix(text, "/s"); perSecond && o.Metric == Rate {
		if o.Limit, err = spec.ParseRate(rate); err != nil {
			return "want operations a second, as in 50000/s or 50k/s"
		}
		return ""
	}
	number, percent := strings.CutSuffix(text, "%")
	share, err := strconv.ParseFloat(number, 64)
	if percent {
		share /= 100
	}
	within := err == nil && share > 0 && share <= 1 // which NaN is not
	switch {
	case o.Metric == Errors && !within:
		return "want a share above 0%, up to 100%, as in 0.1% or 0.001"
	case o.Metric == Errors:
	case !percent:
		return "want a share of the target, as in 99%, or operations a second, as in 50000/s"
	case o.Kind != AllKinds:
		return "the target is one of all kinds together: want a rate, as in 5000/s"
	case !within:
		return "want a share of the target above 0%, up to 100%, as in 99%"
	default:
		o.Metric = Share
	}
	o.Limit = share
	return ""
}

// The bounds of a file of objectives.
const (
	maxFile = 64 << 10
	Most    = 100 // objectives of a run
)

// ReadFile reads a file that has an objective on each line. What follows a # is a comment, and lines may be empty. An error names
// file, line and column.
func ReadFile(path string) ([]Objective, error) {
	text, err := plainfile.Read(path, maxFile)
	if err != nil {
		return nil, err
	}
	all, err := parseLines(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	return all, nil
}

func parseLines(text string) (all []Objective, err error) {
	n := 0
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		n++
		if !utf8.ValidString(line) {
			return nil, fmt.Errorf("%d: not UTF-8", n)
		}
		line, _, _ = strings.Cut(line, "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		o, err := Parse(strings.TrimRightFunc(line, unicode.IsSpace))
		var syntax *SyntaxError
		if errors.As(err, &syntax) {
			return nil, fmt.Errorf("%d:%d: %w", n, syntax.Column, err)
		}
		all = append(all, o)
	}
	if len(all) == 0 {
		return nil, errors.New(" it holds no objective")
	}
	return all, nil
}

// Check tells whether a run can have these objectives at all: paced says that it has a target.
func Check(all []Objective, paced bool) error {
	if len(all) > Most {
		return fmt.Errorf("%d objectives, and a run has %d at most", len(all), Most)
	}
	for _, o := range all {
		switch {
		case paced:
		case o.Time == Response:
			return fmt.Errorf("'%s': a run without --target has no response time: say service, or give it a target", o)
		case o.Metric == Share:
			return fmt.Errorf("'%s': a run without --target has no share of it: say a rate, as in 'rate >= 50000/s', or give it a target", o)
		}
	}
	return nil
}
