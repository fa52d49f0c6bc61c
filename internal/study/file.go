// SPDX-License-Identifier: Apache-2.0

// Package study plans and conducts studies: runs that answer a question together. A study is a file
// ([Parse]), from which a plan follows ([File.Plan]): cells, which are the combinations of what is varied, and steps,
// which are the runs of these in their order. [Study.Conduct] does the steps, one after the other, with a [Runner], which
// knows fleets and clusters. A study's record is written before and after each step, so that it can be continued wherever it was broken off.
package study

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/kvbench/kvbench/internal/objective"
	"github.com/kvbench/kvbench/internal/printable"
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

// Parse reads a study file. name is the file's, for errors: each names the line and column of what is wrong, and all are
// found at once. What properties are called and may be is not looked at: [File.Plan] does.
func Parse(name string, text []byte) (*File, error) {
	r := &reader{name: name}
	f := &File{Rules: DefaultRules()}
	if root := r.root(text); root != nil {
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

func (r *reader) where(t *token.Token) string {
	if t == nil || t.Position == nil {
		return r.name + ":1:1"
	}
	return fmt.Sprintf("%s:%d:%d", r.name, t.Position.Line, t.Position.Column)
}

func (r *reader) fail(n ast.Node, format string, args ...any) {
	var at *token.Token
	if n != nil {
		at = n.GetToken()
	}
	r.errs = append(r.errs, fmt.Errorf("%s: %s", r.where(at), fmt.Sprintf(format, args...)))
}

// root parses the text, which must be one mapping; nil if it is not.
func (r *reader) root(text []byte) (root ast.Node) {
	defer func() { // the library's, on text that is no YAML
		if recover() != nil {
			r.fail(nil, "is no YAML")
			root = nil
		}
	}()
	if len(text) > MaxSize {
		r.fail(nil, "is %d bytes: a study has at most %d", len(text), MaxSize)
		return nil
	}
	doc, err := parser.ParseBytes(text, 0)
	var wrong yaml.Error
	switch {
	case errors.As(err, &wrong):
		r.errs = append(r.errs, fmt.Errorf("%s: %s", r.where(wrong.GetToken()), printable.Line(wrong.GetMessage())))
		return nil
	case err != nil:
		r.fail(nil, "%v", err)
		return nil
	case len(doc.Docs) == 0 || doc.Docs[0].Body == nil:
		r.fail(nil, "is empty: kvbench study init writes an example")
		return nil
	case len(doc.Docs) > 1:
		r.fail(doc.Docs[1].Body, "has a second document: want one")
		return nil
	}
	return doc.Docs[0].Body
}

// entry is one line of a mapping.
type entry struct {
	key   string
	at    ast.Node // of the key
	value ast.Node
}

// mapping returns the entries of a mapping, which must not be there twice.
func (r *reader) mapping(n ast.Node, what string) (all []entry) {
	var values []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	case *ast.NullNode:
		return nil
	default:
		r.fail(n, "%s: want names with values, as name: value", what)
		return nil
	}
	seen := make(map[string]bool)
	for _, v := range values {
		key, ok := r.scalar(v.Key, what)
		if !ok {
			continue
		}
		if seen[key] {
			r.fail(v.Key, "%s stands there twice", key)
			continue
		}
		seen[key] = true
		all = append(all, entry{key, v.Key, v.Value})
	}
	return all
}

// scalar returns the text of a value as it was written.
func (r *reader) scalar(n ast.Node, what string) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	case *ast.AliasNode, *ast.AnchorNode, *ast.TagNode, *ast.MergeKeyNode:
		r.fail(n, "%s: want plain YAML, without anchors, aliases and tags", what)
	case *ast.NullNode:
		r.fail(n, "%s has no value; a list within braces stands in brackets, as in {threadcount: [1, 2]}", what)
	default:
		r.fail(n, "%s: want one value", what)
	}
	return "", false
}

// list returns the elements of a list; a single value is a list of one.
func (r *reader) list(n ast.Node) []ast.Node {
	if s, ok := n.(*ast.SequenceNode); ok {
		return s.Values
	}
	return []ast.Node{n}
}

// pairs reads properties.
func (r *reader) pairs(n ast.Node, what string) (pairs []spec.Pair) {
	for _, e := range r.mapping(n, what) {
		if value, ok := r.scalar(e.value, e.key); ok {
			pairs = append(pairs, spec.Pair{Key: e.key, Value: value, Where: r.where(e.at.GetToken())})
		}
	}
	return pairs
}

// each hands the entries of a mapping to those who read them, and refuses others.
func (r *reader) each(n ast.Node, what string, read map[string]func(entry)) {
	for _, e := range r.mapping(n, what) {
		if do, ok := read[e.key]; ok {
			do(e)
			continue
		}
		var known []string
		for key := range read {
			known = append(known, key)
		}
		slices.Sort(known)
		r.fail(e.at, "%s has no %s: want one of %s", what, strconv.Quote(e.key), strings.Join(known, ", "))
	}
}

func (r *reader) file(f *File, root ast.Node) {
	r.each(root, "a study", map[string]func(entry){
		"name": func(e entry) {
			if f.Name, _ = r.scalar(e.value, e.key); f.Name != "" {
				if err := CheckName(f.Name); err != nil {
					r.fail(e.value, "%v", err)
				}
			}
		},
		workloadKey: func(e entry) {
			for _, n := range r.list(e.value) {
				if value, ok := r.scalar(n, e.key); ok {
					f.Workloads = append(f.Workloads, spec.Pair{Key: workloadKey, Value: value, Where: r.where(n.GetToken())})
				}
			}
		},
		"properties":      func(e entry) { f.Properties = r.pairs(e.value, e.key) },
		"vary":            func(e entry) { f.Vary = r.dimensions(e.value) },
		"variants":        func(e entry) { f.Variants = r.variants(e.value) },
		"repeats":         func(e entry) { f.Rules.Repeats = r.count(e, 1, maxRepeats) },
		"order":           func(e entry) { f.Rules.Order = r.word(e, Interleaved, Random) },
		"seed":            func(e entry) { f.Rules.Seed = uint64(r.count(e, 0, 1<<53)) },
		"pause":           func(e entry) { f.Rules.Pause = r.span(e, 0, maxPause) },
		"load":            func(e entry) { f.Rules.Load = r.word(e, Never, Once, Each) },
		"load-properties": func(e entry) { f.Loads = r.pairs(e.value, e.key) },
		"slo": func(e entry) {
			for _, n := range r.list(e.value) {
				if value, ok := r.scalar(n, e.key); ok {
					if err := objective.One(&f.SLO).Set(value); err != nil {
						r.fail(n, "%v", err)
					}
				}
			}
		},
		"hooks": func(e entry) {
			h := &f.Rules.Hooks
			r.each(e.value, "hooks", map[string]func(entry){
				"before": func(e entry) { h.Before = r.hook(e, false) },
				"during": func(e entry) { h.During = r.hook(e, true) },
				"after":  func(e entry) { h.After = r.hook(e, false) },
			})
		},
		"stop": func(e entry) {
			r.each(e.value, "stop", map[string]func(entry){
				"failures": func(e entry) { f.Rules.Stop.Failures = r.count(e, 1, maxSteps) },
				"within":   func(e entry) { f.Rules.Stop.Within = r.span(e, time.Second, 365*24*time.Hour) },
			})
		},
	})
	if len(f.Loads) > 0 && f.Rules.Load == Never {
		r.fail(root, "load-properties do nothing without load: once or each")
	}
}

// dimensions reads what is varied: a list of values as they are, or a text for [Values].
func (r *reader) dimensions(n ast.Node) (all []Dimension) {
	for _, e := range r.mapping(n, "vary") {
		d := Dimension{Key: e.key}
		if _, several := e.value.(*ast.SequenceNode); several {
			var values []string
			for _, n := range r.list(e.value) {
				if value, ok := r.scalar(n, e.key); ok {
					values = append(values, value)
					d.Values = append(d.Values, spec.Pair{Key: e.key, Value: value, Where: r.where(n.GetToken())})
				}
			}
			if err := distinct(values); err != nil {
				r.fail(e.value, "%s: %v", e.key, err)
			}
		} else if text, ok := r.scalar(e.value, e.key); ok {
			values, err := Values(text)
			if err != nil {
				r.fail(e.value, "%s: %v", e.key, err)
			}
			for _, value := range values {
				d.Values = append(d.Values, spec.Pair{Key: e.key, Value: value, Where: r.where(e.value.GetToken())})
			}
		}
		if len(d.Values) == 0 && len(r.errs) == 0 {
			r.fail(e.at, "%s is varied over no value", e.key)
		}
		all = append(all, d)
	}
	return all
}

func (r *reader) variants(n ast.Node) (all []Variant) {
	for _, e := range r.mapping(n, "variants") {
		if err := CheckName(e.key); err != nil {
			r.fail(e.at, "%v", err)
		}
		all = append(all, Variant{Name: e.key, Pairs: r.pairs(e.value, e.key)})
	}
	return all
}

func (r *reader) hook(e entry, during bool) *Hook {
	h := &Hook{Timeout: hookTimeout}
	_, isText := e.value.(*ast.StringNode)
	_, isBlock := e.value.(*ast.LiteralNode)
	if (isText || isBlock) && !during {
		h.Command, _ = r.scalar(e.value, e.key)
	} else {
		read := map[string]func(entry){
			"command": func(e entry) { h.Command, _ = r.scalar(e.value, e.key) },
			"timeout": func(e entry) { h.Timeout = r.span(e, time.Millisecond, maxPause) },
		}
		if during {
			read["at"] = func(e entry) { h.At = r.span(e, 0, maxPause) }
			read["text"] = func(e entry) {
				if h.Text, _ = r.scalar(e.value, e.key); h.Text != "" {
					if err := results.CheckAnnotation(h.Text); err != nil {
						r.fail(e.value, "%v", err)
					}
				}
			}
		}
		r.each(e.value, e.key, read)
	}
	if strings.TrimSpace(h.Command) == "" || strings.ContainsRune(h.Command, 0) {
		r.fail(e.at, "%s has no command: write command: 'what the shell is to run'", e.key)
	}
	return h
}

func (r *reader) count(e entry, low, high int) int {
	text, ok := r.scalar(e.value, e.key)
	n, err := strconv.Atoi(text)
	if ok && (err != nil || n < low || n > high) {
		r.fail(e.value, "%s: %s: want a whole number from %d to %d", e.key, text, low, high)
	}
	return n
}

func (r *reader) word(e entry, words ...string) string {
	text, ok := r.scalar(e.value, e.key)
	if ok && !slices.Contains(words, text) {
		r.fail(e.value, "%s: %s: want %s", e.key, text, strings.Join(words, " or "))
	}
	return text
}

func (r *reader) span(e entry, low, high time.Duration) Duration {
	text, ok := r.scalar(e.value, e.key)
	d, err := time.ParseDuration(text)
	if ok && (err != nil || d < low || d > high) {
		r.fail(e.value, "%s: %s: want a time from %v to %v, as in 30s or 5m", e.key, text, low, high)
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
