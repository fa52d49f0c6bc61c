// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"runtime"
	"sync/atomic"

	"github.com/pingcap/kvproto/pkg/tikvpb"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// gRPC's own codec takes kvproto's messages, which gogo/protobuf generated, the
// long way: wrapped for protobuf-go's reflection, encoded into a fresh slice, and
// copied. Calling the generated methods saves about a sixth of the whole cost of
// a call. Messages of any other make, such as kvbench's own protocol, go the
// way they always did. A codec can only be set for the whole process, at its start.
func init() {
	encoding.RegisterCodecV2(codec{encoding.GetCodecV2(proto.Name)})
}

type codec struct{ encoding.CodecV2 }

// marshaler and unmarshaler are what gogo/protobuf generates for a message.
type marshaler interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
}

type unmarshaler interface {
	Reset()
	Unmarshal([]byte) error
}

// yields decides when client-go's sending goroutine yields before it encodes a message.
// The first of many calls wakes it, and on a busy core it comes with that one
// alone; while it yields, the others line up and share the next message. Where
// calls are few it would be for nothing, at some 4 µs a message.
var yields yielding

type yielding struct {
	off    atomic.Bool
	credit atomic.Int32
}

// pay tells whether a yield before this message is likely to: one of the last few
// was shared. If none was, one in 33 finds out whether that has changed.
func (y *yielding) pay(commands int) bool {
	if y.off.Load() {
		return false
	}
	if commands > 1 {
		y.credit.Store(4)
		return true
	}
	left := y.credit.Add(-1)
	if left < -32 {
		y.credit.Store(0)
		return true
	}
	return left >= 0
}

// pooled is the size of the smallest buffers that gRPC gives back to its pool: a
// smaller one is garbage after the message that it carried.
const pooled = 2 << 10

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	sent.count(v)
	m, ok := v.(marshaler)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	if batch, ok := v.(*tikvpb.BatchCommandsRequest); ok && yields.pay(len(batch.Requests)) {
		runtime.Gosched()
	}
	size := m.Size()
	pool := mem.DefaultBufferPool()
	buf := pool.Get(max(size, pooled))
	*buf = (*buf)[:size]
	if _, err := m.MarshalToSizedBuffer(*buf); err != nil {
		pool.Put(buf)
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(buf, pool)}, nil
}

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(unmarshaler)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free() // the generated code copies what it keeps
	m.Reset()
	return m.Unmarshal(buf.ReadOnlyData())
}
