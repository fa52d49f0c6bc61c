// SPDX-License-Identifier: Apache-2.0

package tikv

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pingcap/kvproto/pkg/pdpb"
	pd "github.com/tikv/pd/client"

	"github.com/kvbench/kvbench/internal/store"
)

// The bounds of what PD is asked at a time: its client gives up after 3 s.
const (
	regionsPage = 512
	splitPage   = 32
	scatterPage = 128
	pdRetries   = 5
)

// Regions implements [store.Admin].
func (n *connection) Regions(ctx context.Context, first, end []byte) ([]store.Region, error) {
	var all []store.Region
	for {
		page, err := n.pd.ScanRegions(ctx, first, end, regionsPage)
		if err != nil {
			return nil, fmt.Errorf("ask PD for regions: %w", err)
		}
		for _, r := range page {
			region := store.Region{ID: r.Meta.GetId(), Start: r.Meta.GetStartKey(), End: r.Meta.GetEndKey(), Peers: len(r.Meta.GetPeers())}
			if r.Leader != nil {
				region.Leader = r.Leader.GetStoreId()
			}
			all = append(all, region)
		}
		switch {
		case len(all) == 0:
			return nil, errors.New("PD knows no region of these keys")
		case len(page) == 0: // those that follow are being split
			return all, nil
		}
		last := all[len(all)-1].End
		if len(last) == 0 || bytes.Compare(last, end) >= 0 {
			return all, nil
		}
		first = last
	}
}

// Split implements [store.Admin].
func (n *connection) Split(ctx context.Context, keys [][]byte) error {
	for ; len(keys) > 0; keys = keys[min(splitPage, len(keys)):] {
		resp, err := n.pd.SplitRegions(ctx, keys[:min(splitPage, len(keys))], pd.WithRetry(pdRetries))
		if err == nil {
			err = fault(resp.GetHeader())
		}
		if err != nil {
			return fmt.Errorf("ask PD to split: %w", err)
		}
	}
	return nil
}

// Scatter implements [store.Admin].
func (n *connection) Scatter(ctx context.Context, regions []uint64, group string) error {
	for ; len(regions) > 0; regions = regions[min(scatterPage, len(regions)):] {
		resp, err := n.pd.ScatterRegions(ctx, regions[:min(scatterPage, len(regions))], pd.WithGroup(group), pd.WithRetry(pdRetries))
		if err == nil {
			err = fault(resp.GetHeader())
		}
		if err != nil {
			return fmt.Errorf("ask PD to scatter: %w", err)
		}
	}
	return nil
}

// Moving implements [store.Admin]. PD answers with an error where it has no operator.
func (n *connection) Moving(ctx context.Context, region uint64) (bool, error) {
	resp, err := n.pd.GetOperator(ctx, region)
	if err != nil {
		return false, fmt.Errorf("ask PD for the operator of region %d: %w", region, err)
	}
	return resp.GetHeader().GetError() == nil && resp.GetStatus() == pdpb.OperatorStatus_RUNNING, nil
}

// FirstKey implements [store.Admin].
func (c *Cluster) FirstKey(ctx context.Context, first, end []byte) ([]byte, error) {
	keys, _, err := c.clients[0].Scan(ctx, first, end, 1)
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	return keys[0], nil
}

// DeleteRange implements [store.Admin].
func (c *Cluster) DeleteRange(ctx context.Context, first, end []byte) error {
	if len(end) == 0 {
		return errors.New("a range to be deleted needs an end")
	}
	return c.clients[0].DeleteRange(ctx, first, end)
}

// Stores implements [store.Admin].
func (n *connection) Stores(ctx context.Context) ([]store.Member, error) {
	listed, err := n.pd.GetAllStores(ctx, pd.WithExcludeTombstone())
	if err != nil {
		return nil, fmt.Errorf("ask PD for the stores: %w", err)
	}
	var members []store.Member
	for _, s := range listed {
		if !isTiFlash(s) {
			members = append(members, store.Member{ID: s.GetId(), Address: s.GetAddress()})
		}
	}
	slices.SortFunc(members, func(a, b store.Member) int { return cmp.Compare(a.ID, b.ID) })
	return members, nil
}
