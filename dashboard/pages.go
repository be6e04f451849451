package dashboard

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"
)

// row is a page. Its template is a file of templates/ that defines "main", and is given what make has filled.
type row struct {
	// path is its address. One that ends with / has a page for each name behind it, and is not in the navigation.
	path string
	// title is what the navigation calls it.
	title, template string
	// needs are roles of the cluster: the page is there where a node has one of them, and always where it needs none.
	needs []string
	// still is a page that does not change while it is open, such as one with a form in which somebody writes.
	still bool
	// make fills p, with what has no field in Data. It never waits for a node: all who look wait for it, but for a still
	// page. It returns false where there is no such page.
	make func(s *Server, a asked, p *page) bool
}

// rows are all pages, in the order of the navigation.
func rows() []row {
	return append([]row{
		{path: "/", title: "Cluster", template: "cluster", make: (*Server).clusterPage},
		{path: "/alerts", title: "Alerts", template: "alerts", make: (*Server).alertsPage},
		{path: logsPath, title: "Logs", template: "logs", still: true, make: (*Server).logsPage},
		{path: chartsPath, title: "Charts", template: "charts", still: true, make: (*Server).chartsPage},
		{path: "/certificates", title: "Certificates", template: "certificates", still: true, make: (*Server).certificatesPage},
		{path: "/versions", title: "Versions and updates", template: "versions", make: (*Server).versionsPage},
		{path: historyPath, title: "History", template: "history", still: true, make: (*Server).historyPage},
		{path: devicesPath, template: "devices", still: true, make: (*Server).devicesPage},
		{path: nodesPath, template: "node", make: (*Server).nodePage},
	}, servicePages()...)
}

// asked is what a browser asks for, and what is known then.
type asked struct {
	ctx context.Context
	// name is what stands behind the path of a row that ends with /.
	name  string
	query url.Values
	view  View
	// troubles are all of the cluster.
	troubles []Trouble
	now      time.Time
}

// there tells whether the cluster has what the page needs.
func (s *Server) there(r row) bool {
	return len(r.needs) == 0 || slices.ContainsFunc(r.needs, func(role string) bool { return len(s.watcher.cluster.Members[role]) > 0 })
}

// find is the row of a path; found is false when no page has it.
func (s *Server) find(path string) (r row, name string, found bool) {
	for _, r := range s.rows {
		if name, below := strings.CutPrefix(path, r.path); path == r.path || below && name != "" && len(r.path) > 1 && strings.HasSuffix(r.path, "/") {
			return r, name, true
		}
	}
	return row{}, "", false
}

// links are the navigation on the page of a path.
func (s *Server) links(path string) []link {
	var out []link
	for _, r := range s.rows {
		if !strings.HasSuffix(r.path, "/") && r.title != "" && s.there(r) || r.path == "/" {
			out = append(out, link{r.title, r.path, path == r.path})
		}
	}
	return out
}
