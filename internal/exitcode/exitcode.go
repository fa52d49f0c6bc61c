// SPDX-License-Identifier: Apache-2.0

// Package exitcode has the codes that kvbench exits with, so that scripts need not
// read reports, and an error that carries one to main.
package exitcode

import "errors"

// The codes.
const (
	Valid       = 0
	Internal    = 1   // kvbench itself failed
	Usage       = 2   // flags, properties or arguments are wrong; nothing was started
	Unreachable = 3   // the fleet or the cluster cannot be reached, or is busy; nothing is left running
	Degraded    = 4   // a worker was lost, or there were errors above the limit
	Target      = 5   // the target rate was not reached
	Wrong       = 6   // verification found a wrong or lost value
	SLO         = 7   // a service level objective was missed
	Worse       = 8   // compare --fail-on-worse: something judged is worse
	Interrupted = 130 // stopped by its user; what was measured is kept
)

// Meaning is what a code says.
type Meaning struct {
	Code int
	Text string
}

// Meanings lists all codes.
func Meanings() []Meaning {
	return []Meaning{
		{Valid, "the run is valid"},
		{Internal, "kvbench itself failed"},
		{Usage, "bad flags or properties; nothing was started"},
		{Unreachable, "the fleet or the cluster could not be reached, or is busy; nothing is left running"},
		{Degraded, "degraded: a worker was lost, or there were errors above the limit"},
		{Target, "the target rate was not reached"},
		{Wrong, "verification found a wrong or lost value"},
		{SLO, "a service level objective was missed"},
		{Worse, "kvbench compare --fail-on-worse: something judged is worse"},
		{Interrupted, "interrupted; what was measured is kept and reported"},
	}
}

// Error is an error with the code to exit with.
type Error struct {
	Code int
	Err  error // nil when all has been said already
}

// Error implements error.
func (e *Error) Error() string {
	if e.Err == nil {
		return "see the report"
	}
	return e.Err.Error()
}

// Unwrap returns the error without its code.
func (e *Error) Unwrap() error { return e.Err }

// With gives an error a code, unless it is nil or has one.
func With(code int, err error) error {
	var e *Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &Error{code, err}
}

// Of returns the code of err: 0 for nil, [Internal] for an error that has none.
func Of(err error) int {
	var e *Error
	switch {
	case err == nil:
		return Valid
	case errors.As(err, &e):
		return e.Code
	}
	return Internal
}
