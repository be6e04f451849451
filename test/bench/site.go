package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"spore/test/sitebench"
)

// siteTest is the test that measures a site, in siteTests.
const (
	siteTests = "./test/nodeapi"
	siteTest  = "TestFiftyNodesOfASiteFetchEachPieceOnceOrTwice"
)

// site has the nodes of a site fetch an update: each is a process with the API of a node.
func (b *bench) site(ctx context.Context) (*sitebench.Result, error) {
	path := filepath.Join(b.work, "site.json")
	if err := os.RemoveAll(path); err != nil {
		return nil, err
	}
	env := []string{sitebench.Variable + "=" + path}
	if _, err := Run(ctx, b.log, env, "", "go", "test", "-count=1", "-run", "^"+siteTest+"$", siteTests); err != nil {
		return nil, fmt.Errorf("a site that fetches an update: %w", err)
	}
	r, err := readSite(path)
	if err == nil {
		b.say("%d nodes fetch %d pieces: %d fetches over the uplink, at most %d of one piece; %.1f CPU-s", r.Nodes, r.Pieces,
			r.Fetches, r.Most, r.CPU.Seconds())
	}
	return r, err
}

// readSite reads what the test left. A test that was skipped leaves nothing.
func readSite(path string) (*sitebench.Result, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("a site that fetches an update was not measured: %w", err)
	}
	r := &sitebench.Result{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("read what a site fetched: %w", err)
	}
	return r, nil
}

// siteTable shows what came over the uplink.
func siteTable(r *sitebench.Result) string {
	var b strings.Builder
	b.WriteString("| nodes of a site | pieces | KiB of them | over the uplink KiB | most fetches of one piece | goal | met | " +
		"CPU s of all nodes |\n|--:|--:|--:|--:|--:|--:|---|--:|\n")
	goal := Goal{Value: float64(r.Most), Limit: sitebench.Goal}
	fmt.Fprintf(&b, "| %d | %d | %d | %d | %d | ≤ %d | %s | %s |\n", r.Nodes, r.Pieces, r.Size>>10, r.Uplink>>10, r.Most,
		sitebench.Goal, goal.Met(), number(r.CPU.Seconds()))
	return b.String()
}
