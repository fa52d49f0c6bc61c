// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
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
		// What gRPC here says of the connection to the worker. What a worker says, of a cluster that it cannot reach, stays as it is.
		if broke, ok := strings.CutPrefix(text, "error reading from server: "); ok {
			text = "the connection to it broke (" + broke + "): it ended, or was restarted"
			break
		}
		if !strings.HasPrefix(text, "connection error: ") {
			break
		}
		text = cause(text)
		if strings.Contains(text, "reading server preface") {
			text += "; does this worker ask for TLS (--tls-ca, --tls-cert, --tls-key), or is this another service's port?"
		}
	}
	return exitcode.With(code, errors.New(text))
}

// cause is what gRPC has packed into its own words and quotes, which say nothing to a
// user: the text of the innermost "desc".
func cause(text string) string {
	for {
		_, quoted, ok := strings.Cut(text, "desc = ")
		if !ok {
			return strings.TrimPrefix(strings.TrimPrefix(text, "transport: "), "Error while dialing: ")
		}
		text = quoted
		if prefix, err := strconv.QuotedPrefix(quoted); err == nil {
			text, _ = strconv.Unquote(prefix) // it is a quoted string
		}
	}
}

// some names some of the workers, briefly.
func some(who []string, workers int) string {
	slices.Sort(who)
	switch {
	case len(who) == workers && workers > 1:
		return fmt.Sprintf("all %d workers", workers)
	case len(who) > 3:
		return fmt.Sprintf("%s and %d more of %d workers", who[0], len(who)-1, workers)
	default:
		return strings.Join(who, ", ")
	}
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
		lines = append(lines, some(who, workers)+": "+text)
	}
	slices.Sort(lines)
	return exitcode.With(code, errors.New(strings.Join(lines, "\n")))
}
