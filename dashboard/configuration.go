package dashboard

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"spore/wire/machine"
	"spore/wire/nodeapi"
)

const (
	configurationPath = "/configuration"
	// maxVersions is of how many configurations that differ the files are asked for, maxTexts of how many files the text,
	// and maxChanges how many lines of one are shown.
	maxVersions, maxTexts, maxChanges = 8, 10, 100
)

// configuration is the page of the differences between the operator's folder and what nodes run.
type configuration struct {
	Versions []version
	More     int
	// Silent are nodes that did not say what they run.
	Silent []string
}

// version is a configuration that some nodes run.
type version struct {
	Hash    string
	Nodes   []string
	Trouble string
	Files   []difference
	More    int
	Level   Level
}

// difference is a file that is not the same.
type difference struct {
	Path, What string
	Changes    []changed
	More       int
}

func askConfiguration(ctx context.Context, w *inquiry, _ any) (any, error) {
	files, err := w.asker.Files()
	if err != nil {
		return nil, fmt.Errorf("read the operator's folder: %w", err)
	}
	nodes := w.known()
	c := &configuration{}
	groups := map[string][]string{}
	for _, n := range nodes {
		if n.Answered.IsZero() || n.Problem != nil || n.Status.Configuration == nil {
			c.Silent = append(c.Silent, n.Name)
			continue
		}
		hash := n.Status.Configuration.ClusterHash
		groups[hash] = append(groups[hash], n.Name)
	}
	if len(groups) == 0 {
		return nil, errors.New("no node has said what it runs")
	}
	for _, hash := range slices.Sorted(maps.Keys(groups)) {
		if len(c.Versions) == maxVersions {
			c.More++
			continue
		}
		v := version{Hash: fmt.Sprintf("%.12s", hash), Nodes: groups[hash]}
		if err := v.compare(ctx, w, files); err != nil {
			v.Trouble, v.Level = err.Error(), Warning
		}
		c.Versions = append(c.Versions, v)
	}
	return c, nil
}

// compare asks the first of the nodes that answers for its files: they run the same.
func (v *version) compare(ctx context.Context, w *inquiry, files map[string][]byte) error {
	var problems []error
	for _, node := range v.Nodes[:min(len(v.Nodes), 3)] {
		r, err := w.on(ctx, node, "configuration-show", none)
		if err == nil {
			var there map[string]string
			if there, err = hashes(r.Results); err == nil {
				v.differ(ctx, w, node, files, there)
				return nil
			}
		}
		problems = append(problems, fmt.Errorf("%s: %w", node, err))
	}
	return errors.Join(problems...)
}

func hashes(results []json.RawMessage) (map[string]string, error) {
	out := map[string]string{}
	for _, part := range results {
		var files []machine.ConfigurationFile
		if err := json.Unmarshal(part, &files); err != nil {
			return nil, fmt.Errorf("the answer is malformed: %w", err)
		}
		for _, f := range files {
			out[f.Path] = f.SHA256
		}
	}
	return out, nil
}

func (v *version) differ(ctx context.Context, w *inquiry, node string, files map[string][]byte, there map[string]string) {
	names := slices.AppendSeq(slices.Collect(maps.Keys(files)), maps.Keys(there))
	slices.Sort(names)
	texts := 0
	var all []difference
	for _, name := range slices.Compact(names) {
		here, has := files[name]
		sum, runs := there[name]
		d := difference{Path: name}
		switch {
		case !has:
			d.What = "the nodes have it, and the folder has not"
		case !runs:
			d.What = "the folder has it, and the nodes have not"
		case hash(here) == sum:
			continue
		default:
			d.What = "differs"
			if texts++; texts <= maxTexts {
				d.read(ctx, w, node, string(here))
			}
		}
		all = append(all, d)
	}
	if v.Files, v.More = cut(all); len(all) > 0 {
		v.Level = Warning
	}
}

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// read asks for the text that a node has of a file, and compares.
func (d *difference) read(ctx context.Context, w *inquiry, node, here string) {
	if !strings.HasSuffix(d.Path, ".yaml") {
		return
	}
	o := nodeapi.Order{Arguments: map[string]string{"file": d.Path}}
	r, err := w.on(ctx, node, "configuration-show", o)
	if err != nil {
		d.What = "differs: " + err.Error()
		return
	}
	var files []machine.ConfigurationFile
	if len(r.Results) != 1 || json.Unmarshal(r.Results[0], &files) != nil || len(files) != 1 {
		d.What = "differs; the node's answer about its text is malformed"
		return
	}
	d.Changes = compareLines(files[0].Text, here)
	if n := len(d.Changes); n > maxChanges {
		d.Changes, d.More = d.Changes[:maxChanges], n-maxChanges
	}
}
