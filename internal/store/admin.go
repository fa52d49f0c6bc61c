// SPDX-License-Identifier: Apache-2.0

package store

import "context"

// Administered is a driver that can lay out its database.
type Administered interface {
	Driver
	Described
	Admin() Admin
}

// Admin changes how keys lie on a database's stores. Keys are in the form that calls carry. Any goroutine may use it.
type Admin interface {
	// Regions returns the regions that hold keys of [first, end), in their order.
	Regions(ctx context.Context, first, end []byte) ([]Region, error)
	// Split asks for regions that begin at the keys. It may do a part, and be asked again for the rest.
	Split(ctx context.Context, keys [][]byte) error
	// Scatter asks that regions be spread over the stores, each group for itself. It returns before that is so.
	Scatter(ctx context.Context, regions []uint64, group string) error
	// Moving reports whether something is being done with a region.
	Moving(ctx context.Context, region uint64) (bool, error)
	// FirstKey returns the first key of [first, end); nil if there is none.
	FirstKey(ctx context.Context, first, end []byte) ([]byte, error)
	// DeleteRange removes the keys of [first, end), whose end must not be empty.
	DeleteRange(ctx context.Context, first, end []byte) error
	// Stores returns the stores that may lead regions, whether or not they are up, by their ids.
	Stores(ctx context.Context) ([]Member, error)
}

// Member is a store of a cluster.
type Member struct {
	ID      uint64 // as regions name their leaders
	Address string // as traffic has it
}

// Region is a range of keys that lies on some stores.
type Region struct {
	ID         uint64
	Start, End []byte // End is excluded; empty ones are those of the key space
	Leader     uint64 // the store that serves it; 0: none at present
	Peers      int    // stores that keep it
}
