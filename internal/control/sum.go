// SPDX-License-Identifier: Apache-2.0

package control

import (
	"hash/crc32"
	"io"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum is the checksum by which copies are compared, CRC-32C: it finds what disks and
// networks damage.
func Sum(r io.Reader) (uint32, error) {
	sum := crc32.New(castagnoli)
	_, err := io.Copy(sum, r)
	return sum.Sum32(), err
}
