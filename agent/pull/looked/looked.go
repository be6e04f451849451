// Package looked is what came of the node's last look for an update, for its status. Package pull writes it, without
// rights; whoever reads it takes it for what it is, a text.
package looked

import (
	"fmt"
	"time"

	"spore/storage/atomicfile"
	"spore/wire/nodeapi"
)

// Last is what came of the last look (JSON at paths.Looked).
type Last struct {
	// At is when it ended; From is the address that had the head.
	At   time.Time `json:"at"`
	From string    `json:"from,omitempty"`
	// Serial is that of the update that was there.
	Serial uint64 `json:"serial,omitempty"`
	// Result says what became of it, Problem why nothing did.
	Result  string `json:"result,omitempty"`
	Problem string `json:"problem,omitempty"`
	// Outside and Nodes are how many bytes were fetched from the address and from other nodes.
	Outside int64 `json:"outside,omitempty"`
	Nodes   int64 `json:"nodes,omitempty"`
}

// maxText bounds each text in characters.
const maxText = 1000

// Read reads what came of the last look; nil when there was none.
func Read(path string) *Last {
	var l Last
	if err := atomicfile.ReadJSON(path, &l); err != nil {
		return nil
	}
	for _, text := range []*string{&l.From, &l.Result, &l.Problem} {
		*text = nodeapi.Harmless(fmt.Sprintf("%.*s", maxText, *text))
	}
	return &l
}

// Text is it for people.
func (l Last) Text() string {
	out := "looked at " + l.At.UTC().Format(time.RFC3339)
	if l.From != "" {
		out += " at " + l.From
	}
	if l.Problem != "" {
		return out + ": " + l.Problem
	}
	return out + ": " + l.Result
}
