// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

type adminAnswer struct {
	Done  string `json:"done,omitempty"`
	Error string `json:"error,omitempty"`
}

// adminHandler serves the state (GET /state) and the table of commands (POST /NAME?parameters). Answers are JSON:
// {"done": "…"} or {"error": "…"}.
func adminHandler(c *Cluster) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /state", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, c.State()) })
	mux.HandleFunc("POST /{command}", func(w http.ResponseWriter, r *http.Request) {
		params, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			answer(w, http.StatusBadRequest, adminAnswer{Error: err.Error()})
			return
		}
		done, err := c.Do(r.PathValue("command"), params)
		switch {
		case errors.Is(err, errUnknownDisturbance):
			answer(w, http.StatusNotFound, adminAnswer{Error: err.Error()})
		case err != nil:
			answer(w, http.StatusBadRequest, adminAnswer{Error: err.Error()})
		default:
			answer(w, http.StatusOK, adminAnswer{Done: done})
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		answer(w, http.StatusNotFound, adminAnswer{
			Error: fmt.Sprintf("no %s %s: want GET /state, or POST and one of %s", r.Method, r.URL.Path, disturbanceList()),
		})
	})
	return mux
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(body) // the client is gone, or it is answered
}

// Controller speaks to the admin endpoint of a playground.
type Controller struct {
	base   string
	client *http.Client
}

// Control returns a controller of the playground whose admin endpoint is at addr (host:port).
func Control(addr string, files TLS) (*Controller, error) {
	config, err := files.client()
	if err != nil {
		return nil, err
	}
	scheme := "http"
	if config != nil {
		scheme = "https"
	}
	return &Controller{
		base:   scheme + "://" + addr,
		client: &http.Client{Timeout: httpTimeout, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}},
	}, nil
}

// State asks for a snapshot of the cluster.
func (c *Controller) State(ctx context.Context) (State, error) {
	var st State
	err := c.ask(ctx, http.MethodGet, "state", nil, &st)
	return st, err
}

// Do runs one of the table (see Disturbances), and returns what has been done.
func (c *Controller) Do(ctx context.Context, name string, params url.Values) (string, error) {
	var a adminAnswer
	err := c.ask(ctx, http.MethodPost, url.PathEscape(name), params, &a)
	return a.Done, err
}

func (c *Controller) ask(ctx context.Context, method, path string, params url.Values, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, c.base+"/"+path+"?"+params.Encode(), nil)
	if err != nil {
		return err
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return fmt.Errorf("playground admin endpoint: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("playground admin endpoint: %w", err)
	}
	if resp.StatusCode == http.StatusOK {
		return json.Unmarshal(body, into)
	}
	var a adminAnswer
	if json.Unmarshal(body, &a) != nil || a.Error == "" {
		return fmt.Errorf("playground admin endpoint: %s: %s", resp.Status, strings.TrimSpace(string(body)))
	}
	return errors.New(a.Error)
}
