// SPDX-License-Identifier: Apache-2.0

package workload

// inserts numbers the records that one lane inserts during a run, and remembers
// which of them the store has acknowledged: only those are ever read.
//
// The lane's insert m gets the record
//
//	recordcount + worker + workers·(lane + lanes·m)
//
// which no other lane of the fleet uses, also when workers have different numbers
// of lanes. Lanes run at about the same speed, so the records of the fleet stay dense, and a lane can
// take its own m for a measure of the others'.
type inserts struct {
	first, step int64
	next        int64 // m of the next insert

	// acknowledged: all below floor·64, and the bits from there on. A failed
	// insert stays a hole, and costs one bit per later insert.
	floor int64
	acked []uint64
	top   int64 // one above the highest that is acknowledged
}

func newInserts(records int64, p Place) inserts {
	return inserts{
		first: records + int64(p.Worker) + int64(p.Workers)*int64(p.Lane),
		step:  int64(p.Workers) * int64(p.Lanes),
	}
}

// take returns the m of a new insert.
func (i *inserts) take() int64 {
	i.next++
	return i.next - 1
}

// record returns the record of insert m.
func (i *inserts) record(m int64) int64 { return i.first + i.step*m }

// acknowledge says that the store has the record of insert m.
func (i *inserts) acknowledge(m int64) {
	i.top = max(i.top, m+1)
	word := m/64 - i.floor
	for int64(len(i.acked)) <= word {
		i.acked = append(i.acked, 0)
	}
	i.acked[word] |= 1 << (m % 64)
	full := 0
	for full < len(i.acked) && i.acked[full] == ^uint64(0) {
		full++
	}
	// Moving the rest down is worth it when it is less than what goes.
	if full > len(i.acked)/2 {
		i.floor += int64(full)
		i.acked = i.acked[:copy(i.acked, i.acked[full:])]
	}
}

// grown returns by how many records the fleet has grown, judging by this lane.
func (i *inserts) grown() int64 { return i.top * i.step }

// nearest returns this lane's newest acknowledged insert that is not newer than
// the fleet's insert number n, counting from 0. false: there is none.
func (i *inserts) nearest(n int64) (m int64, ok bool) {
	m = min(n/i.step, i.top-1)
	for m >= i.floor*64 {
		word := i.acked[m/64-i.floor] << (63 - m%64)
		if word != 0 {
			for ; word&(1<<63) == 0; word <<= 1 {
				m--
			}
			return m, true
		}
		m = m/64*64 - 1
	}
	return m, m >= 0
}
