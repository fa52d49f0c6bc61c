// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"fmt"
	"sync"

	"google.golang.org/grpc/mem"
)

// frame is a message of a BatchCommands stream in the wire format. To gRPC it is
// the message itself: its codec hands the bytes on.
type frame struct {
	send    *[]byte    // to go out: its memory goes back to buffers when it has been written
	receive mem.Buffer // came in: to be freed by whoever takes it
}

// codec is gRPC's for streams of frames.
type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*frame)
	if !ok {
		return nil, fmt.Errorf("a %T is not a frame", v)
	}
	return mem.BufferSlice{mem.NewBuffer(f.send, buffers)}, nil
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return fmt.Errorf("a %T is not a frame", v)
	}
	f.receive = data.MaterializeToBuffer(mem.DefaultBufferPool())
	return nil
}

// buffers holds the memory of outgoing messages.
var buffers = &bufferPool{sync.Pool{New: func() any {
	b := make([]byte, 0, 8<<10) // above what gRPC thinks worth giving back
	return &b
}}}

type bufferPool struct{ pool sync.Pool }

// Get returns memory of length n. Messages are made by appending to Get(0).
func (p *bufferPool) Get(n int) *[]byte {
	b := p.pool.Get().(*[]byte)
	if cap(*b) < n {
		*b = make([]byte, n)
	}
	*b = (*b)[:n]
	return b
}

// Put implements [mem.BufferPool].
func (p *bufferPool) Put(b *[]byte) {
	if cap(*b) <= 1<<20 { // one huge message should not keep its memory for good
		p.pool.Put(b)
	}
}
