package dashboard

import (
	"context"
	"errors"

	"spore/wire/nodeapi"
)

// devicesPath is followed by the name of a node. maxDevices bounds each of the two texts, in bytes, so that the page
// stays small.
const (
	devicesPath = "/devices/"
	maxDevices  = 50_000
)

// devicesData is what the page of the disks and the network of a node shows.
type devicesData struct{ Node, Path, Asked, Problem, Disks, Network string }

func (s *Server) devicesPage(a asked, p *page) bool {
	n, found := a.view.node(a.name)
	if !found {
		return false
	}
	d := &devicesData{Node: n.Name, Path: nodesPath + n.Name, Asked: a.now.UTC().Format("2006-01-02 15:04:05 UTC")}
	p.Data, p.Title = d, "Disks and network of "+n.Name+" – "+p.Title
	var err error
	if leave, why := s.searches.take(a.ctx); leave != nil {
		defer leave()
		ctx, cancel := context.WithTimeoutCause(a.ctx, searching, errors.New("no answer in time"))
		defer cancel()
		d.Disks, d.Network, err = s.watcher.asker.Devices(ctx, n.Name)
	} else {
		err = errors.New(why)
	}
	if err != nil {
		d.Problem = err.Error()
	}
	d.Disks, d.Network = manyLines(d.Disks), manyLines(d.Network)
	return true
}

// manyLines is a text of several lines from a node, without what a browser would turn around or hide, and bounded.
func manyLines(text string) string {
	if len(text) > maxDevices {
		text = text[:maxDevices] + "\n…"
	}
	return nodeapi.HarmlessLines(text)
}
