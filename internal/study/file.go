// SPDX-License-Identifier: Apache-2.0

// Package study plans and conducts studies: runs that answer a question together. A study is a file
// ([Parse]), from which a plan follows ([File.Plan]): cells, which are the combinations of what is varied, and steps,
// which are the runs of these in their order. [Study.Conduct] does the steps, one after the other, with a [Runner], which
// knows fleets and clusters. A study's record is written before and after each step, so that it can be continued wherever it was broken off.
package study

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvbench/kvbench/internal/objective"
	"github.com/kvbench/kvbench/internal/plainyaml"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/spec"
)

// File is a study as it is asked for.
type File struct {
	Name       string
	Workloads  []spec.Pair // as -w names them; Key is "workload"
	Properties []spec.Pair // of every cell
	Vary       []Dimension
	Variants   []Variant // what is compared; none: there is one, without a name
	Rules      Rules
	Loads      []spec.Pair // of loads alone
	SLO        []objective.Objective
	Prices     []spec.Pair // files of prices; Key is the variant that each is of, "" of all

	SkipWhere string // where Rules.Stop.SkipHigher stands, for errors
}

// Dimension is a property and what it is varied over. The property may be "workload".
type Dimension struct {
	Key    string
	Values []spec.Pair
}

// Variant is one of several things that are compared.
type Variant struct {
	Name  string
	Pairs []spec.Pair
}

// Rules say how a plan is made and carried out. They are kept with the study.
type Rules struct {
	Repeats int      `json:"repeats"`
	Order   string   `json:"order"` // Interleaved or Random
	Seed    uint64   `json:"seed"`
	Pause   Duration `json:"pause"` // before every run but the first
	Load    string   `json:"load"`  // Never, Once or Each
	Hooks   Hooks    `json:"hooks"`
	Stop    Stop     `json:"stop"`
}

// Hooks are commands of the user's; nil: none.
type Hooks struct {
	Before *Hook `json:"before,omitempty"` // a run
	During *Hook `json:"during,omitempty"`
	After  *Hook `json:"after,omitempty"`
}

// Hook is a command.
type Hook struct {
	Command string   `json:"command"`        // for the shell
	Timeout Duration `json:"timeout"`        // after which it is killed
	At      Duration `json:"at,omitempty"`   // on the run's clock; of During alone
	Text    string   `json:"text,omitempty"` // the event's in the run; of During alone
}

// Stop says when a study ends before its plan does.
type Stop struct {
	Failures int      `json:"failures"` // after so many failed runs without one that did not
	Within   Duration `json:"within"`   // no run begins that would not end within; 0: no bound
	// SkipHigher is the property of which, once a run has broken an objective, no run with a higher value begins
	// that is of the same repeat and equal in all else; "": none.
	SkipHigher string `json:"skip_higher,omitempty"`
}

// Words of a study file.
const (
	Interleaved = "interleaved"
	Random      = "random"

	Never = "never"
	Once  = "once"
	Each  = "each"
)

// Bounds of a study file.
const (
	MaxSize    = 1 << 20 // bytes
	maxRepeats = 1000
	maxPause   = 24 * time.Hour
	maxSteps   = 10_000
)

// DefaultRules are those of a file that says nothing.
func DefaultRules() Rules {
	return Rules{Repeats: 1, Order: Interleaved, Seed: 1, Load: Never, Stop: Stop{Failures: 3}}
}

// Check refuses what a file could not say either, of rules that flags have changed.
func (r *Rules) Check() error {
	switch {
	case r.Repeats < 1 || r.Repeats > maxRepeats:
		return fmt.Errorf("--repeats %d: want 1 to %d", r.Repeats, maxRepeats)
	case r.Order != Interleaved && r.Order != Random:
		return fmt.Errorf("--order %s: want %s or %s", r.Order, Interleaved, Random)
	case r.Pause < 0 || r.Pause > Duration(maxPause):
		return fmt.Errorf("--pause %v: want 0s to %v", time.Duration(r.Pause), maxPause)
	case r.Load != Never && r.Load != Once && r.Load != Each:
		return fmt.Errorf("--load %s: want %s, %s or %s", r.Load, Never, Once, Each)
	}
	return nil
}

const (
	workloadKey  = "workload"
	hookTimeout  = Duration(time.Minute)
	namesOfRuns  = "letters, digits, '.', '_' and '-', first a letter or digit"
	maxNameBytes = 64
)

// Parse reads a study file. name is the file's, for errors: each names the line and column of what is wrong, and as many as
// can be are found at once. What properties are called and may be is not looked at: [File.Plan] does.
func Parse(name string, text []byte) (*File, error) {
	r := &reader{name: name}
	f := &File{Rules: DefaultRules()}
	if len(text) > MaxSize {
		return nil, fmt.Errorf("%s:1:1: %d bytes: a study has at most %d", name, len(text), MaxSize)
	}
	root, err := plainyaml.Parse(text)
	if errors.Is(err, plainyaml.ErrEmpty) {
		err = fmt.Errorf("%w: kvbench study init writes an example", err)
	}
	r.add(err)
	if err == nil {
		r.file(f, root)
	}
	if err := errors.Join(r.errs...); err != nil {
		return nil, err
	}
	return f, nil
}

// reader collects what is wrong with a file.
type reader struct {
	name string
	errs []error
}

// add keeps an error that begins with a line and a column; nil is none.
func (r *reader) add(err error) {
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("%s:%w", r.name, err))
	}
}

func (r *reader) fail(n *plainyaml.Node, format string, args ...any) { r.add(n.Fail(format, args...)) }

// pair is a property's value that stands somewhere.
func (r *reader) pair(key, value string, at *plainyaml.Node) spec.Pair {
	return spec.Pair{Key: key, Value: value, Where: r.name + ":" + at.Where()}
}

// entries are those of a mapping.
func (r *reader) entries(n *plainyaml.Node) []plainyaml.Entry {
	all, err := n.Entries()
	r.add(err)
	return all
}

// text is a value of one line; false if it is none.
func (r *reader) text(n *plainyaml.Node) (string, bool) {
	text, err := n.Text()
	r.add(err)
	return text, err == nil
}

// values returns the elements of a list; a single value is a list of one.
func values(n *plainyaml.Node) []*plainyaml.Node {
	if all, err := n.List(); err == nil {
		return all
	}
	return []*plainyaml.Node{n}
}

// pairs reads properties.
func (r *reader) pairs(n *plainyaml.Node) (pairs []spec.Pair) {
	for _, e := range r.entries(n) {
		if value, ok := r.text(e.Value); ok {
			pairs = append(pairs, r.pair(e.Name, value, e.Key))
		}
	}
	return pairs
}

// each hands the entries of a mapping to those who read them, and refuses others.
func (r *reader) each(n *plainyaml.Node, what string, read map[string]func(plainyaml.Entry)) {
	for _, e := range r.entries(n) {
		if do, ok := read[e.Name]; ok {
			do(e)
			continue
		}
		known := slices.Sorted(maps.Keys(read))
		r.fail(e.Key, "%s has no %q: want one of %s", what, e.Name, strings.Join(known, ", "))
	}
}

func (r *reader) file(f *File, root *plainyaml.Node) {
	r.each(root, "a study", map[string]func(plainyaml.Entry){
		"name": func(e plainyaml.Entry) {
			if f.Name, _ = r.text(e.Value); f.Name != "" {
				if err := CheckName(f.Name); err != nil {
					r.fail(e.Value, "%v", err)
				}
			}
		},
		workloadKey: func(e plainyaml.Entry) {
			for _, n := range values(e.Value) {
				if value, ok := r.text(n); ok {
					f.Workloads = append(f.Workloads, r.pair(workloadKey, value, n))
				}
			}
		},
		"properties":      func(e plainyaml.Entry) { f.Properties = r.pairs(e.Value) },
		"vary":            func(e plainyaml.Entry) { f.Vary = r.dimensions(e.Value) },
		"variants":        func(e plainyaml.Entry) { f.Variants = r.variants(e.Value) },
		"repeats":         func(e plainyaml.Entry) { f.Rules.Repeats = r.count(e, 1, maxRepeats) },
		"order":           func(e plainyaml.Entry) { f.Rules.Order = r.word(e, Interleaved, Random) },
		"seed":            func(e plainyaml.Entry) { f.Rules.Seed = uint64(r.count(e, 0, 1<<53)) },
		"pause":           func(e plainyaml.Entry) { f.Rules.Pause = r.span(e, 0, maxPause) },
		"load":            func(e plainyaml.Entry) { f.Rules.Load = r.word(e, Never, Once, Each) },
		"load-properties": func(e plainyaml.Entry) { f.Loads = r.pairs(e.Value) },
		"slo": func(e plainyaml.Entry) {
			for _, n := range values(e.Value) {
				if value, ok := r.text(n); ok {
					if err := objective.One(&f.SLO).Set(value); err != nil {
						r.fail(n, "%v", err)
					}
				}
			}
		},
		"prices": func(e plainyaml.Entry) {
			if e.Value.IsMapping() {
				f.Prices = r.pairs(e.Value)
			} else if path, ok := r.text(e.Value); ok {
				f.Prices = []spec.Pair{r.pair("", path, e.Value)}
			}
		},
		"hooks": func(e plainyaml.Entry) {
			h := &f.Rules.Hooks
			r.each(e.Value, "hooks", map[string]func(plainyaml.Entry){
				"before": func(e plainyaml.Entry) { h.Before = r.hook(e, false) },
				"during": func(e plainyaml.Entry) { h.During = r.hook(e, true) },
				"after":  func(e plainyaml.Entry) { h.After = r.hook(e, false) },
			})
		},
		"stop": func(e plainyaml.Entry) {
			r.each(e.Value, "stop", map[string]func(plainyaml.Entry){
				"failures": func(e plainyaml.Entry) { f.Rules.Stop.Failures = r.count(e, 1, maxSteps) },
				"within":   func(e plainyaml.Entry) { f.Rules.Stop.Within = r.span(e, time.Second, 365*24*time.Hour) },
				"skip-higher": func(e plainyaml.Entry) {
					f.Rules.Stop.SkipHigher, _ = r.text(e.Value)
					f.SkipWhere = r.name + ":" + e.Value.Where()
				},
			})
		},
	})
	if len(f.Loads) > 0 && f.Rules.Load == Never {
		r.fail(root, "load-properties do nothing without load: once or each")
	}
}

// dimensions reads what is varied: a list of values as they are, or a text for [Values].
func (r *reader) dimensions(n *plainyaml.Node) (all []Dimension) {
	for _, e := range r.entries(n) {
		d := Dimension{Key: e.Name}
		if e.Value.IsList() {
			var list []string
			for _, n := range values(e.Value) {
				if value, ok := r.text(n); ok {
					list = append(list, value)
					d.Values = append(d.Values, r.pair(e.Name, value, n))
				}
			}
			if err := distinct(list); err != nil {
				r.fail(e.Value, "%s: %v", e.Name, err)
			}
		} else if text, ok := r.text(e.Value); ok {
			list, err := Values(text)
			if err != nil {
				r.fail(e.Value, "%s: %v", e.Name, err)
			}
			for _, value := range list {
				d.Values = append(d.Values, r.pair(e.Name, value, e.Value))
			}
		}
		if len(d.Values) == 0 && len(r.errs) == 0 {
			r.fail(e.Key, "%s is varied over no value", e.Name)
		}
		all = append(all, d)
	}
	return all
}

func (r *reader) variants(n *plainyaml.Node) (all []Variant) {
	for _, e := range r.entries(n) {
		if err := CheckName(e.Name); err != nil {
			r.fail(e.Key, "%v", err)
		}
		all = append(all, Variant{Name: e.Name, Pairs: r.pairs(e.Value)})
	}
	return all
}

func (r *reader) hook(e plainyaml.Entry, during bool) *Hook {
	h := &Hook{Timeout: hookTimeout}
	command := func(e plainyaml.Entry) {
		text, err := e.Value.Lines()
		r.add(err)
		h.Command = text
	}
	if !during && !e.Value.IsMapping() {
		command(e)
	} else {
		read := map[string]func(plainyaml.Entry){
			"command": command,
			"timeout": func(e plainyaml.Entry) { h.Timeout = r.span(e, time.Millisecond, maxPause) },
		}
		if during {
			read["at"] = func(e plainyaml.Entry) { h.At = r.span(e, 0, maxPause) }
			read["text"] = func(e plainyaml.Entry) {
				if h.Text, _ = r.text(e.Value); h.Text != "" {
					if err := results.CheckAnnotation(h.Text); err != nil {
						r.fail(e.Value, "%v", err)
					}
				}
			}
		}
		r.each(e.Value, e.Name, read)
	}
	if strings.TrimSpace(h.Command) == "" || strings.ContainsRune(h.Command, 0) {
		r.fail(e.Key, "%s has no command: write command: 'what the shell is to run'", e.Name)
	}
	return h
}

func (r *reader) count(e plainyaml.Entry, low, high int) int {
	text, ok := r.text(e.Value)
	n, err := strconv.Atoi(text)
	if ok && (err != nil || n < low || n > high) {
		r.fail(e.Value, "%s: %s: want a whole number from %d to %d", e.Name, text, low, high)
	}
	return n
}

func (r *reader) word(e plainyaml.Entry, words ...string) string {
	text, ok := r.text(e.Value)
	if ok && !slices.Contains(words, text) {
		r.fail(e.Value, "%s: %s: want %s", e.Name, text, strings.Join(words, " or "))
	}
	return text
}

func (r *reader) span(e plainyaml.Entry, low, high time.Duration) Duration {
	text, ok := r.text(e.Value)
	d, err := time.ParseDuration(text)
	if ok && (err != nil || d < low || d > high) {
		r.fail(e.Value, "%s: %s: want a time from %v to %v, as in 30s or 5m", e.Name, text, low, high)
	}
	return Duration(d)
}

// CheckName refuses what is no name of a study or a variant.
func CheckName(name string) error {
	if len(name) > maxNameBytes || results.CheckName(name) != nil {
		return fmt.Errorf("name %q: want up to %d %s", name, maxNameBytes, namesOfRuns)
	}
	return nil
}

// Duration is a time that stands in a record as people write it, as "30s".
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}
