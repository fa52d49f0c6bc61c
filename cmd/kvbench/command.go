// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"slices"
	"strings"
)

// environment looks variables up, and remembers which were there.
type environment struct {
	lookup func(string) (string, bool)
	found  []string // as assignments, in the order of their first use
}

func (e *environment) get(name string) (string, bool) {
	value, ok := e.lookup(name)
	if assignment := name + "=" + quoted(value); ok && !slices.Contains(e.found, assignment) {
		e.found = append(e.found, assignment)
	}
	return value, ok
}

// commandLine is what a POSIX shell does the same again with: the variables that said
// something of the load, and the arguments. Secrets are in neither, only the names of their files.
func commandLine(variables, args []string) string {
	words := append(append([]string{}, variables...), "kvbench")
	for _, arg := range args {
		words = append(words, quoted(arg))
	}
	return strings.Join(words, " ")
}

var plainWord = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// quoted returns a word as a POSIX shell must be given it.
func quoted(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
