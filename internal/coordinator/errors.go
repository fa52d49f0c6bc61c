// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kvbench/kvbench/internal/exitcode"
)

// failure is what a call to a worker came to, in words and with its code.
func failure(err error) error {
	s := status.Convert(err)
	text := s.Message()
	code := exitcode.Unreachable
	switch s.Code() {
	case codes.InvalidArgument:
		code = exitcode.Usage
	case codes.DeadlineExceeded:
		text = "no answer in time"
	case codes.Unimplemented:
		text = "this is no kvbench worker, or one of another version: " + text
	case codes.Unavailable:
		// gRPC's prefix says nothing to a user; what follows does.
		if _, cause, ok := strings.Cut(text, `desc = "`); ok {
			text = strings.TrimSuffix(cause, `"`)
		}
		if strings.Contains(text, "reading server preface") {
			text += "; does this worker ask for TLS (--tls-ca, --tls-cert, --tls-key), or is this another service's port?"
		}
	}
	return exitcode.With(code, errors.New(text))
}

// failures joins what went wrong with several workers. Those that say the same
// are named together, so that one cause is one line.
func failures(all map[string]error, workers int) error {
	if len(all) == 0 {
		return nil
	}
	names := make(map[string][]string) // by text
	code := exitcode.Unreachable
	for name, err := range all {
		if _, ok := err.(*exitcode.Error); !ok {
			err = failure(err)
		}
		names[err.Error()] = append(names[err.Error()], name)
		if exitcode.Of(err) == exitcode.Usage {
			code = exitcode.Usage
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
	return exitcode.With(code, errors.New(strings.Join(lines, "\n")))
}
