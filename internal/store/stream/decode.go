// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// responses is a BatchCommandsResponse: bodies[i] answers the command ids[i].
// Its memory is used again.
type responses struct {
	ids    []uint64
	bodies [][]byte // BatchCommandsResponse.Response, in the wire format
}

// parse reads a message. What it finds points into data.
func (r *responses) parse(data []byte) error {
	r.ids, r.bodies = r.ids[:0], r.bodies[:0]
	for len(data) > 0 {
		f, err := next(&data)
		switch {
		case err != nil:
			return err
		case f.number == 1 && f.kind == protowire.BytesType:
			r.bodies = append(r.bodies, f.bytes)
		case f.number == 2 && f.kind == protowire.VarintType:
			r.ids = append(r.ids, f.value)
		case f.number == 2 && f.kind == protowire.BytesType: // packed
			for packed := f.bytes; len(packed) > 0; {
				id, n := protowire.ConsumeVarint(packed)
				if n < 0 {
					return protowire.ParseError(n)
				}
				r.ids = append(r.ids, id)
				packed = packed[n:]
			}
		}
	}
	if len(r.ids) != len(r.bodies) {
		return fmt.Errorf("%d answers with %d ids", len(r.bodies), len(r.ids))
	}
	return nil
}

// answer is a store's answer to one raw command: what those of the different
// commands have among them. Its fields point into the message.
type answer struct {
	regionError []byte // errorpb.Error in the wire format
	failed      bool   // there is an error that is not a region error
	text        []byte // of that error
	value       []byte
	notFound    bool
	pairs       [][]byte // kvrpcpb.KvPair in the wire format
}

var errNoCommand = errors.New("an answer without a command")

// parse reads the answer to a command, of which it must be the kind.
func (a *answer) parse(body []byte, command protowire.Number) error {
	*a = answer{pairs: a.pairs[:0]}
	var content []byte
	found := protowire.Number(0)
	for len(body) > 0 {
		f, err := next(&body)
		if err != nil {
			return err
		}
		if f.kind == protowire.BytesType {
			found, content = f.number, f.bytes // the last one wins, as in any oneof
		}
	}
	switch found {
	case command:
	case 0:
		return errNoCommand
	default:
		return fmt.Errorf("an answer of kind %d to a command of kind %d", found, command)
	}
	pairs := command == cmdRawBatchGet || command == cmdRawScan
	for len(content) > 0 {
		f, err := next(&content)
		switch {
		case err != nil:
			return err
		case f.number == 1 && f.kind == protowire.BytesType:
			a.regionError = f.bytes
		case f.number == 2 && f.kind == protowire.BytesType && pairs:
			a.pairs = append(a.pairs, f.bytes)
		case f.number == 2 && f.kind == protowire.BytesType:
			a.text, a.failed = f.bytes, len(f.bytes) > 0
		case f.number == 3 && f.kind == protowire.BytesType && command == cmdRawGet:
			a.value = f.bytes
		case f.number == 4 && f.kind == protowire.VarintType && command == cmdRawGet:
			a.notFound = f.value != 0
		}
	}
	return nil
}

// pair is a kvrpcpb.KvPair.
type pair struct {
	err        []byte // kvrpcpb.KeyError in the wire format
	failed     bool
	key, value []byte
}

func (p *pair) parse(data []byte) error {
	*p = pair{}
	for len(data) > 0 {
		f, err := next(&data)
		switch {
		case err != nil:
			return err
		case f.kind != protowire.BytesType:
		case f.number == 1:
			p.err, p.failed = f.bytes, true
		case f.number == 2:
			p.key = f.bytes
		case f.number == 3:
			p.value = f.bytes
		}
	}
	return nil
}

// field is one field of a message.
type field struct {
	number protowire.Number
	kind   protowire.Type
	value  uint64 // VarintType
	bytes  []byte // BytesType
}

// next takes the first field off data. Fields of other types are skipped over, with nothing in them.
func next(data *[]byte) (field, error) {
	number, kind, n := protowire.ConsumeTag(*data)
	if n < 0 {
		return field{}, protowire.ParseError(n)
	}
	f := field{number: number, kind: kind}
	rest := (*data)[n:]
	switch kind {
	case protowire.VarintType:
		f.value, n = protowire.ConsumeVarint(rest)
	case protowire.BytesType:
		f.bytes, n = protowire.ConsumeBytes(rest)
	default:
		n = protowire.ConsumeFieldValue(number, kind, rest)
	}
	if n < 0 {
		return field{}, protowire.ParseError(n)
	}
	*data = rest[n:]
	return f, nil
}
