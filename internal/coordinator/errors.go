// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The codes that kvbench exits with, as far as coordinating a run decides them.
const (
	ExitUsage       = 2   // flags or properties are wrong
	ExitUnreachable = 3   // the fleet or the cluster cannot be reached, or is busy
	ExitDegraded    = 4   // a worker was lost or failed; results are kept
	ExitInterrupted = 130 // stopped by its user; results are kept
)

// Error is an error with the code to exit with.
type Error struct {
	Code int
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// ExitCode returns the code of err: 0 for nil, 1 for an error that has none.
func ExitCode(err error) int {
	var e *Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.Code
	default:
		return 1
	}
}

// failure is what a call to a worker came to, in words and with its code.
func failure(err error) *Error {
	s := status.Convert(err)
	text := s.Message()
	code := ExitUnreachable
	switch s.Code() {
	case codes.InvalidArgument:
		code = ExitUsage
	case codes.DeadlineExceeded:
		text = "no answer in time"
	case codes.Unimplemented:
		text = "this is no kvbench worker, or one of another version: " + text
	case codes.Unavailable:
		// gRPC's prefix says nothing to a user; what follows does.
		if _, cause, ok := strings.Cut(text, `desc = "`); ok {
			text = strings.TrimSuffix(cause, `"`)
		}
	}
	return &Error{code, errors.New(text)}
}

// failures joins what went wrong with several workers. Those that say the same
// are named together, so that one cause is one line.
func failures(all map[string]error, workers int) error {
	if len(all) == 0 {
		return nil
	}
	names := make(map[string][]string) // by text
	code := ExitUnreachable
	for name, err := range all {
		f, ok := err.(*Error)
		if !ok {
			f = failure(err)
		}
		names[f.Error()] = append(names[f.Error()], name)
		if f.Code == ExitUsage {
			code = ExitUsage
		}
	}
	var lines []string
	for text, who := range names {
		slices.Sort(who)
		switch {
		case len(who) == workers && workers > 1:
			lines = append(lines, fmt.Sprintf("all %d workers: %s", workers, text))
		case len(who) > 3:
			lines = append(lines, fmt.Sprintf("%s and %d more of %d workers: %s", who[0], len(who)-1, workers, text))
		default:
			lines = append(lines, fmt.Sprintf("%s: %s", strings.Join(who, ", "), text))
		}
	}
	slices.Sort(lines)
	return &Error{code, errors.New(strings.Join(lines, "\n"))}
}
