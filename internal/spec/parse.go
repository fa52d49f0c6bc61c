// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Source is a layer of properties.
type Source struct {
	Name  string // "workload file w.properties", "environment", "-p"
	File  bool   // it is a file, which many runs share
	Pairs []Pair
}

// Pair is one property as it was written.
type Pair struct {
	Key, Value string
	Where      string // "w.properties:12", "BENCH_TYPE (environment)", "-p", "--target"
}

// Property is an effective property.
type Property struct {
	Name, Value string
	Where       string // where the value was written, or "default"
	Group       string
}

// Error is what is wrong with one property.
type Error struct {
	Where, Key, Value string
	Problem           string // what is wrong, and what to do
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Where != "" {
		b.WriteString(e.Where + ": ")
	}
	b.WriteString(e.Key)
	if e.Value != "" {
		value := e.Value
		if len(value) > 100 {
			value = value[:100] + "…"
		}
		b.WriteString("=" + value)
	}
	return b.String() + ": " + e.Problem
}

// Parse reads the sources, a later one over an earlier, and checks the whole. The
// error joins all that is wrong, each an [*Error], in the order of the sources. A value
// that a later source replaces must still be a valid one.
func Parse(sources ...Source) (*Spec, error) {
	s := &Spec{origin: make(map[string]string)}
	for i := range table {
		p := &table[i]
		if err := p.parse(s, p.Default); err != nil {
			panic("spec: default of " + p.Name + " " + err.Error())
		}
	}
	var errs []error
	written := make(map[string]Pair)
	files := make(map[string]bool)
	for _, source := range sources {
		for _, pair := range source.Pairs {
			pair.Key, pair.Value = strings.TrimSpace(pair.Key), strings.TrimSpace(pair.Value)
			if !utf8.ValidString(pair.Key + pair.Value) {
				errs = append(errs, &Error{pair.Where, pair.Key, pair.Value, "is not UTF-8"})
				continue
			}
			p := lookup(pair.Key)
			if p == nil {
				warning, err := foreign(pair)
				if err != nil {
					errs = append(errs, err)
				} else if warning != "" && !slices.Contains(s.Warnings, warning) {
					s.Warnings = append(s.Warnings, warning)
				}
				continue
			}
			if err := p.parse(s, pair.Value); err != nil {
				errs = append(errs, &Error{pair.Where, pair.Key, pair.Value, err.Error()})
				continue
			}
			written[p.Name] = pair
			files[p.Name] = source.File
			s.origin[p.Name] = pair.Where
		}
	}
	// A value that could not be read would only cause further complaints.
	if errs == nil {
		errs = s.finish(written, files)
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	return s, nil
}

// ParseMap parses properties without an origin, as [Spec.Properties] gave them.
func ParseMap(properties map[string]string) (*Spec, error) {
	source := Source{Name: "properties"}
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		source.Pairs = append(source.Pairs, Pair{Key: key, Value: properties[key]})
	}
	return Parse(source)
}

// Effective returns every property, its value, and where that came from, in the
// order of [Definitions].
func (s *Spec) Effective() []Property {
	all := make([]Property, len(table))
	for i, p := range table {
		where, ok := s.origin[p.Name]
		if !ok {
			where = "default"
		}
		all[i] = Property{Name: p.Name, Value: p.format(s), Where: where, Group: p.Group}
	}
	return all
}

// Written returns the values of those properties that somebody wrote, for [ParseMap].
func (s *Spec) Written() map[string]string {
	m := make(map[string]string, len(s.origin))
	for _, p := range s.Effective() {
		if !s.IsDefault(p.Name) {
			m[p.Name] = p.Value
		}
	}
	return m
}

// Properties returns every property's value. [ParseMap] of them gives an equal Spec.
func (s *Spec) Properties() map[string]string {
	m := make(map[string]string, len(table))
	for _, p := range table {
		m[p.Name] = p.format(s)
	}
	return m
}

// Shape returns the properties that decide what keys and rows look like. A run finds
// the rows of a load only if both agree in them.
func (s *Spec) Shape() map[string]string {
	m := make(map[string]string)
	for _, p := range table {
		if p.Shape {
			m[p.Name] = p.format(s)
		}
	}
	return m
}

// IsDefault reports whether nobody wrote the property.
func (s *Spec) IsDefault(name string) bool {
	_, ok := s.origin[name]
	return !ok
}

// RecordsOpen reports whether nobody wrote which records a run or a verification is
// to use. The Spec has the defaults then, and those that were loaded are meant, if
// the store remembers them.
func (s *Spec) RecordsOpen() bool {
	return s.Phase != Load && s.IsDefault("recordcount") && s.IsDefault("insertstart") && s.IsDefault("insertcount")
}

func (s *Spec) warn(format string, args ...any) {
	s.Warnings = append(s.Warnings, fmt.Sprintf(format, args...))
}
