// SPDX-License-Identifier: Apache-2.0

package cluster

import (
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

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	sent.count(v)
	m, ok := v.(marshaler)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	size := m.Size()
	pool := mem.DefaultBufferPool()
	buf := pool.Get(size)
	if _, err := m.MarshalToSizedBuffer((*buf)[:size]); err != nil {
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
