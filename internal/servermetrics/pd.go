// SPDX-License-Identifier: Apache-2.0

package servermetrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Placement is what PD tells of how it places data.
type Placement struct {
	Schedulers []string // at work
	Replicas   int      // wanted of each region
}

// Placement asks PD, which may take so long.
func (w *Watcher) Placement(ctx context.Context, timeout time.Duration) (*Placement, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var p Placement
	var replicate struct {
		MaxReplicas int `json:"max-replicas"`
	}
	err := w.ask(ctx, "/pd/api/v1/schedulers", &p.Schedulers)
	if err == nil {
		err = w.ask(ctx, "/pd/api/v1/config/replicate", &replicate)
	}
	if err != nil {
		return nil, errors.New(w.missing(w.pd, err, timeout))
	}
	p.Replicas = replicate.MaxReplicas
	return &p, nil
}

func (w *Watcher) ask(ctx context.Context, path string, answer any) error {
	resp, err := w.get(ctx, w.pd, path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := readAll(resp.Body, path+" answers more than")
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("%s does not answer as PD does: %w", path, err)
	}
	return nil
}
