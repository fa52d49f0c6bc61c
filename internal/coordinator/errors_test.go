// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What a worker says of a cluster stays as it is; what gRPC says of the connection to the worker becomes shorter.
func TestFailure(t *testing.T) {
	t.Parallel()
	const pd = `PD at a:1 does not answer: connection error: desc = "error reading server preface: EOF"`
	for text, want := range map[string]string{
		pd: pd,
		`connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused"`: "dial tcp 127.0.0.1:1: connect: connection refused",
		`connection error: desc = "error reading server preface: EOF"`:                                                 "error reading server preface: EOF; does this worker ask for TLS (--tls-ca, --tls-cert, --tls-key), or is this another service's port?",
		`error reading from server: EOF`: "the connection to it broke (EOF): it ended, or was restarted",
	} {
		if got := failure(status.Error(codes.Unavailable, text)).Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
