// SPDX-License-Identifier: Apache-2.0

package objective

import "slices"

// Flag is the value of a flag that adds objectives, each once, and may be given several times.
type Flag struct {
	all  *[]Objective
	read func(text string) ([]Objective, error)
	kind string
}

// One is a flag whose value is an objective.
func One(all *[]Objective) *Flag {
	return &Flag{all, func(text string) ([]Objective, error) {
		o, err := Parse(text)
		return []Objective{o}, err
	}, "objective"}
}

// Lines is a flag whose value is a file of objectives.
func Lines(all *[]Objective) *Flag { return &Flag{all, ReadFile, "file"} }

func (f *Flag) String() string { return "" }

// Type is what the value is.
func (f *Flag) Type() string { return f.kind }

// Set adds what the value says.
func (f *Flag) Set(text string) error {
	more, err := f.read(text)
	if err != nil {
		return err
	}
	*f.all = Union(*f.all, more)
	return nil
}

// Union appends to all those of more that are not among them.
func Union(all, more []Objective) []Objective {
	for _, o := range more {
		if !slices.Contains(all, o) {
			all = append(all, o)
		}
	}
	return all
}
