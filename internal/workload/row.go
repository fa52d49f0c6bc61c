// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/kvbench/kvbench/internal/spec"
)

// rowCodec encodes a row as a value and takes it apart again, in one of three
// formats. It never keeps or changes what it is given, and it takes any bytes.
//
//   - go-ycsb: per field 0x08, the field's number, 0x02, the length, the bytes;
//     numbers are zig-zag varints. A row without fields is a single 0x00.
//   - ycsb: per field the length of its name, the name, the length of its bytes, the
//     bytes; lengths are 4 bytes, big-endian.
//   - raw: the bytes of the fields and nothing else.
type rowCodec struct {
	format rowFormat
	fields int
	names  [][]byte // ycsb
	prefix []byte   // ycsb: what names begin with
	length int      // raw: bytes per field; 0 when the value is one field of any length
}

type rowFormat uint8

const (
	goYCSBRow rowFormat = iota
	ycsbRow
	rawRow
)

const (
	fieldFlag = 0x08
	bytesFlag = 0x02
)

func newRowCodec(s *spec.Spec) rowCodec {
	c := rowCodec{fields: s.Row.Fields, prefix: []byte(s.Row.FieldPrefix)}
	switch s.Row.Format {
	case spec.Raw, spec.Balance:
		c.format = rawRow
		if s.Row.LengthDistribution == spec.Constant {
			c.length = s.Row.FieldLength
		}
	case spec.YCSB:
		c.format = ycsbRow
		for i := range c.fields {
			c.names = append(c.names, strconv.AppendInt([]byte(s.Row.FieldPrefix), int64(i), 10))
		}
	}
	return c
}

// size returns the bytes of a row of fields of that length.
func (c *rowCodec) size(fieldLength int64) int64 {
	var total int64
	var buf [4 * binary.MaxVarintLen64]byte
	for i := range c.fields {
		total += int64(len(c.header(buf[:0], i, int(fieldLength)))) + fieldLength
	}
	return total
}

// header appends what comes before the bytes of a field.
func (c *rowCodec) header(dst []byte, field, length int) []byte {
	switch c.format {
	case goYCSBRow:
		dst = append(dst, fieldFlag)
		dst = binary.AppendVarint(dst, int64(field))
		dst = append(dst, bytesFlag)
		dst = binary.AppendVarint(dst, int64(length))
	case ycsbRow:
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(c.names[field])))
		dst = append(dst, c.names[field]...)
		dst = binary.BigEndian.AppendUint32(dst, uint32(length))
	}
	return dst
}

// cell is the place of a field in a row: [begin, end), its bytes [content, end).
type cell struct {
	field               int // -1: not one of ours
	begin, content, end int
}

var errEmptyRow = errors.New("is empty")

// cell returns the cell that begins at pos < len(row).
func (c *rowCodec) cell(row []byte, pos int) (cell, error) {
	switch c.format {
	case ycsbRow:
		return c.namedCell(row, pos)
	case rawRow:
		if c.length == 0 {
			return cell{0, 0, 0, len(row)}, nil
		}
		if len(row) != c.fields*c.length {
			return cell{}, fmt.Errorf("has %d bytes instead of %d", len(row), c.fields*c.length)
		}
		return cell{pos / c.length, pos, pos, pos + c.length}, nil
	}
	rest := row[pos:]
	if rest[0] != fieldFlag {
		return cell{}, fmt.Errorf("has byte %#02x at offset %d, where a field begins with %#02x", rest[0], pos, fieldFlag)
	}
	field, n := binary.Varint(rest[1:])
	if n <= 0 {
		return cell{}, fmt.Errorf("ends or overflows in the field number at offset %d", pos+1)
	}
	at := 1 + n
	if at >= len(rest) || rest[at] != bytesFlag {
		return cell{}, fmt.Errorf("has no bytes for the field at offset %d", pos)
	}
	length, n := binary.Varint(rest[at+1:])
	if n <= 0 {
		return cell{}, fmt.Errorf("ends or overflows in the length at offset %d", pos+at+1)
	}
	at += 1 + n
	if length < 0 || length > int64(len(rest)-at) {
		return cell{}, fmt.Errorf("is cut off: the field at offset %d has length %d, %d bytes are left", pos, length, len(rest)-at)
	}
	if field < 0 || field >= maxField {
		field = -1
	}
	return cell{int(field), pos, pos + at, pos + at + int(length)}, nil
}

// maxField bounds field numbers of foreign rows.
const maxField = 1 << 16

func (c *rowCodec) namedCell(row []byte, pos int) (cell, error) {
	name, at, ok := sized(row, pos)
	if !ok {
		return cell{}, fmt.Errorf("is cut off in the field name at offset %d", pos)
	}
	content, end, ok := sized(row, at)
	if !ok {
		return cell{}, fmt.Errorf("is cut off in the field at offset %d", pos)
	}
	field := -1
	if digits, ok := bytes.CutPrefix(name, c.prefix); ok && len(digits) > 0 && len(digits) <= 5 {
		field = 0
		for _, d := range digits {
			if d < '0' || d > '9' {
				field = -1
				break
			}
			field = field*10 + int(d-'0')
		}
	}
	if field >= maxField {
		field = -1
	}
	return cell{field, pos, end - len(content), end}, nil
}

// sized returns the bytes behind a 4-byte length, and the position after them.
func sized(row []byte, pos int) (content []byte, end int, ok bool) {
	if len(row)-pos < 4 {
		return nil, 0, false
	}
	n := int64(binary.BigEndian.Uint32(row[pos:]))
	pos += 4
	if n > int64(len(row)-pos) {
		return nil, 0, false
	}
	return row[pos : pos+int(n)], pos + int(n), true
}

// begin returns the position of the first cell; it is len(row) for a row without fields.
func (c *rowCodec) begin(row []byte) (int, error) {
	if c.format == goYCSBRow && len(row) == 1 && row[0] == 0 {
		return 1, nil
	}
	if len(row) == 0 && (c.format != rawRow || c.length > 0) {
		return 0, errEmptyRow
	}
	return 0, nil
}
