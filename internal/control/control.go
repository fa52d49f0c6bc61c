// SPDX-License-Identifier: Apache-2.0

// Package control carries the conversation between coordinator and workers:
// how a worker listens, how a coordinator dials, and who may speak. The messages
// are in workerpb; what they do is in the packages worker and coordinator.
//
// A worker puts load on a database at anybody's word, so the door is shut by
// default: on loopback it is open to the machine's users, elsewhere a caller must
// show a token or a certificate. Whatever a stranger sends is refused before it is
// decoded, is bounded in memory and connections, and leaves one line in the log.
//
//go:generate go tool -modfile=../tools/go.mod buf lint
//go:generate go tool -modfile=../tools/go.mod buf generate
package control

import "time"

// Protocol is the version of the conversation, and of what is measured. Coordinator
// and worker must speak the same, whatever their versions are called: it changes
// when either would misunderstand the other, and when a worker's numbers come to
// mean something else.
const Protocol = 4

// The bounds of the conversation.
const (
	// MaxRequest bounds what a worker accepts in one message, in bytes: the record of a run of
	// 10,000 workers, and more.
	MaxRequest = 9 << 20
	// MaxResponse bounds what a coordinator accepts in one message, in bytes.
	MaxResponse = 9 << 20

	maxConnections        = 512 // of a worker
	maxConnectionsPerPeer = 64  // by IP address
	maxStreams            = 64  // at the same time on one connection
	maxHeaderBytes        = 16 << 10

	handshakeTimeout = 5 * time.Second  // for TLS and the HTTP/2 preface
	idleTimeout      = 2 * time.Minute  // for a connection without a call
	stallTimeout     = 20 * time.Second // for a reader of a stream who takes nothing
	pingAfter        = 10 * time.Second
	pingTimeout      = 5 * time.Second
)
