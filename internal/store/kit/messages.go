// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"math/bits"
	"sync/atomic"

	"github.com/kvbench/kvbench/internal/store"
)

// Messages counts messages to one store by the number of their commands. Any
// number of goroutines may count; where one alone does, it costs two atomic
// additions that nobody competes for. The zero value is ready.
type Messages struct {
	commands atomic.Int64
	kinds    [store.CommandKinds]atomic.Int64
	sizes    [sizes]atomic.Int64
}

// Sizes up to 127 have a counter each; from there, every doubling has 64.
const (
	stepBits = 6
	steps    = 1 << stepBits
	maxSize  = 1 << 16
	sizes    = (16-stepBits)*steps + steps + 1
)

func sizeIndex(commands int) int {
	commands = min(commands, maxSize)
	shift := max(0, bits.Len(uint(commands))-stepBits-1)
	return shift*steps + commands>>shift
}

func sizeAt(index int) int {
	shift := max(0, index/steps-1)
	return (index - shift*steps) << shift
}

// Kinds are the commands of a message by their kind.
type Kinds [store.CommandKinds]int32

// Add counts a command.
func (k *Kinds) Add(c store.Command) {
	if int(c) < len(k) {
		k[c]++
	}
}

// Sent counts a message.
func (m *Messages) Sent(commands int, kinds *Kinds) {
	m.commands.Add(int64(commands))
	m.sizes[sizeIndex(commands)].Add(1)
	for c, n := range kinds {
		if n > 0 {
			m.kinds[c].Add(int64(n))
		}
	}
}

// AddTo adds what was counted to t.
func (m *Messages) AddTo(t *store.Traffic) {
	t.Commands += m.commands.Load()
	for c := range m.kinds {
		if n := m.kinds[c].Load(); n > 0 {
			if t.Kinds == nil {
				t.Kinds = make(map[string]int64)
			}
			t.Kinds[store.Command(c).String()] += n
		}
	}
	for i := range m.sizes {
		n := m.sizes[i].Load()
		if n == 0 {
			continue
		}
		if t.Sizes == nil {
			t.Sizes = make(map[int]int64)
		}
		t.Sizes[sizeAt(i)] += n
		t.Messages += n
	}
}
