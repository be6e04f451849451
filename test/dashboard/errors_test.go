//go:build e2e

package dashboard

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/test/browser"
)

func TestErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	off, withdrawn, blind := newPlant("edge-01", "edge-02"), newPlant("edge-01", "edge-02"), newPlant("edge-01")
	for _, n := range off.nodes {
		off.says(n.Name, func(a *answer) { a.err = errors.New("no answer: no route to host") })
		withdrawn.says(n.Name, func(a *answer) { a.err = errors.New("no answer: remote error: tls: bad certificate") })
	}
	off.problem = errors.New("edge-01: no answer: no route to host")
	blind.blind = true
	closed := newPlant("edge-01") // Its address is not opened.
	for name, c := range map[string]struct {
		p    *plant
		path string
		sees []string
	}{
		"without the address": {closed, "/", []string{"This browser was not let in", "Open the address that spore dashboard has printed."}},
		"no node answers": {off, "/", []string{
			"no node answers", "see whether this machine reaches the network of the nodes", "spore status configs", "it does not answer: no route to host",
		}},
		"a certificate that was withdrawn": {withdrawn, "/", []string{"no node takes the certificate of this page", "spore access configs"}},
		"nobody tells the alerts":          {off, "/alerts", []string{"It is not known which alerts fire now", "spore alerts configs"}},
		"no node has the role alerts": {blind, "/alerts", []string{
			"No node has the role alerts", "give alerts to a node in cluster.yaml", "spore push configs",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.p.origin == "" {
				require.NoError(t, c.p.serve())
				t.Cleanup(c.p.stopped)
				t.Cleanup(func() { c.p.origin = "" })
			}
			b := chromium.Tab(t)
			if c.p != closed {
				b.Open(c.p.address)
			}
			b.Open(c.p.origin + c.path)
			for _, s := range screens {
				b.Look(s.width, s.scheme)
				for _, want := range c.sees {
					b.Sees(browser.Patience, browser.Says(want), want)
				}
				require.LessOrEqual(t, browser.Eval[int64](b, "document.documentElement.scrollWidth"), s.width)
				accessible(t, b, s.scheme)
			}
		})
	}
}
