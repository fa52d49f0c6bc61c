// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"runtime"

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

// pooled is the size of the smallest buffers that gRPC gives back to its pool: a
// smaller one is garbage after the message that it carried.
const pooled = 2 << 10

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	sent.count(v)
	m, ok := v.(marshaler)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	if _, ok := v.(*tikvpb.BatchCommandsRequest); ok {
		// The first of many calls wakes the goroutine that sends them, and on a busy core
		// it comes here with that one alone. While it yields, the others line up,
		// and share the next message.
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
