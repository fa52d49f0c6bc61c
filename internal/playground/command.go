// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/pingcap/kvproto/pkg/tikvpb"
)

// command names what a request asks for. The values below 200 and 255 are the field numbers of BatchCommandsRequest.Request; the
// others exist as unary calls only.
type command uint8

const (
	cmdUnset               command = 0
	cmdGet                 command = 1
	cmdScan                command = 2
	cmdPrewrite            command = 3
	cmdCommit              command = 4
	cmdCleanup             command = 6
	cmdBatchGet            command = 7
	cmdBatchRollback       command = 8
	cmdScanLock            command = 9
	cmdResolveLock         command = 10
	cmdDeleteRange         command = 12
	cmdPessimisticLock     command = 23
	cmdPessimisticRollback command = 24
	cmdCheckTxnStatus      command = 25
	cmdTxnHeartBeat        command = 26
	cmdCheckSecondaryLocks command = 33
	cmdRawGet              command = 13
	cmdRawBatchGet         command = 14
	cmdRawPut              command = 15
	cmdRawBatchPut         command = 16
	cmdRawDelete           command = 17
	cmdRawBatchDelete      command = 18
	cmdRawScan             command = 19
	cmdRawDeleteRange      command = 20
	cmdRawBatchScan        command = 21
	cmdEmpty               command = 255

	cmdRawGetKeyTTL      command = 200
	cmdRawCompareAndSwap command = 201
	cmdRawChecksum       command = 202
	cmdSplitRegion       command = 203
)

var heavyCommands = []command{cmdRawScan, cmdRawBatchScan, cmdScan, cmdScanLock, cmdResolveLock, cmdDeleteRange}

// heavy tells commands whose work may take milliseconds; they must not hold up the others of their message.
func (c command) heavy() bool {
	return slices.Contains(heavyCommands, c)
}

// waits tells commands that may wait for others, which must go on meanwhile.
func (c command) waits() bool { return c == cmdPessimisticLock }

// commandNames are the names of the alternatives of a BatchCommands request, those of transactions after "Kv" as TiKV has them, and of
// the unary methods; empty where there is none.
var commandNames = func() (names [256]string) {
	for _, alternative := range (*tikvpb.BatchCommandsRequest_Request)(nil).XXX_OneofWrappers() {
		// The tag of the only field begins with the wire type and the field number.
		field := reflect.TypeOf(alternative).Elem().Field(0)
		number, err := strconv.Atoi(strings.Split(field.Tag.Get("protobuf"), ",")[1])
		if err == nil && number < len(names) {
			names[number] = field.Name
		}
	}
	for cmd := cmdGet; cmd <= cmdDeleteRange; cmd++ {
		names[cmd] = "Kv" + names[cmd]
	}
	for cmd := cmdPessimisticLock; cmd <= cmdCheckSecondaryLocks; cmd++ {
		if names[cmd] != "" {
			names[cmd] = "Kv" + names[cmd]
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
