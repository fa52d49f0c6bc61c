// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"reflect"
	"strconv"
	"strings"

	"github.com/pingcap/kvproto/pkg/tikvpb"
)

// command names what a request asks for. The values below 200 and 255 are the field numbers of BatchCommandsRequest.Request; the
// others exist as unary calls only.
type command uint8

const (
	cmdUnset          command = 0
	cmdRawGet         command = 13
	cmdRawBatchGet    command = 14
	cmdRawPut         command = 15
	cmdRawBatchPut    command = 16
	cmdRawDelete      command = 17
	cmdRawBatchDelete command = 18
	cmdRawScan        command = 19
	cmdRawDeleteRange command = 20
	cmdRawBatchScan   command = 21
	cmdEmpty          command = 255

	cmdRawGetKeyTTL      command = 200
	cmdRawCompareAndSwap command = 201
	cmdRawChecksum       command = 202
	cmdSplitRegion       command = 203
)

// heavy tells commands whose work may take milliseconds; they must not hold up the others of their message.
func (c command) heavy() bool {
	return c == cmdRawScan || c == cmdRawBatchScan
}

// commandNames are the names of the alternatives of a BatchCommands request and of the unary methods; empty where there is none.
var commandNames = func() (names [256]string) {
	for _, alternative := range (*tikvpb.BatchCommandsRequest_Request)(nil).XXX_OneofWrappers() {
		// The tag of the only field begins with the wire type and the field number.
		field := reflect.TypeOf(alternative).Elem().Field(0)
		number, err := strconv.Atoi(strings.Split(field.Tag.Get("protobuf"), ",")[1])
		if err == nil && number < len(names) {
			names[number] = field.Name
		}
	}
	names[cmdUnset] = "Unset"
	names[cmdRawGetKeyTTL] = "RawGetKeyTTL"
	names[cmdRawCompareAndSwap] = "RawCompareAndSwap"
	names[cmdRawChecksum] = "RawChecksum"
	names[cmdSplitRegion] = "SplitRegion"
	return names
}()

func (c command) String() string { return commandNames[c] }
