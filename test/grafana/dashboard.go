// Package grafana holds the dashboards of docs/grafana to what they are for: Grafana's model of a dashboard as far as
// they use it (grafana.com, Dashboard JSON model, schemaVersion 39, which is Grafana 11's), the families that nodes
// tell, and data, which a live store has to find for each query. It does not draw anything: no Grafana runs here.
package grafana

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Dashboard is a file of docs/grafana.
type Dashboard struct {
	// Name is that of the file, without its ending.
	Name          string     `json:"-"`
	UID           string     `json:"uid"`
	Title         string     `json:"title"`
	Description   string     `json:"description"`
	Tags          []string   `json:"tags"`
	SchemaVersion int        `json:"schemaVersion"`
	Templating    Templating `json:"templating"`
	Panels        []Panel    `json:"panels"`
}

// Templating are the variables that a person chooses.
type Templating struct {
	List []Variable `json:"list"`
}

// Variable is one of them. Its query is a text, or, of type query, an object.
type Variable struct {
	Name       string          `json:"name"`
	Type       string          `json:"type"`
	Label      string          `json:"label"`
	Definition string          `json:"definition"`
	AllValue   string          `json:"allValue"`
	IncludeAll bool            `json:"includeAll"`
	Query      json.RawMessage `json:"query"`
	Datasource Datasource      `json:"datasource"`
}

// Datasource says whom to ask.
type Datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// Panel is a picture of the dashboard.
type Panel struct {
	ID          int         `json:"id"`
	Type        string      `json:"type"`
	Title       string      `json:"title"`
	Description string      `json:"description"`
	Datasource  Datasource  `json:"datasource"`
	GridPos     GridPos     `json:"gridPos"`
	FieldConfig FieldConfig `json:"fieldConfig"`
	Targets     []Target    `json:"targets"`
}

// GridPos is where a panel is, in a grid of 24 columns.
type GridPos struct {
	X, Y, W, H int
}

// FieldConfig says how values are written.
type FieldConfig struct {
	Defaults struct {
		Unit string `json:"unit"`
	} `json:"defaults"`
}

// Target is a query of a panel.
type Target struct {
	RefID        string     `json:"refId"`
	Datasource   Datasource `json:"datasource"`
	Expr         string     `json:"expr"`
	LegendFormat string     `json:"legendFormat"`
	Format       string     `json:"format"`
	Instant      bool       `json:"instant"`
	Range        bool       `json:"range"`
}

// Load reads all dashboards of a folder, sorted by their names.
func Load(dir string) ([]Dashboard, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no dashboards", dir)
	}
	var out []Dashboard
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		d := Dashboard{Name: strings.TrimSuffix(filepath.Base(file), ".json")}
		if err := json.Unmarshal(data, &d); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b Dashboard) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Queries are all queries of a dashboard by their keys: the number of the panel and the letter of the query, as 12A.
func (d *Dashboard) Queries() map[string]string {
	out := map[string]string{}
	for _, p := range d.Panels {
		for _, t := range p.Targets {
			out[key(p, t)] = t.Expr
		}
	}
	return out
}

func key(p Panel, t Target) string { return fmt.Sprintf("%d%s", p.ID, t.RefID) }

// rateInterval stands for $__rate_interval, which Grafana makes four times as long as the time between two scrapes.
const rateInterval = "2m"

// variable is the use of one.
var variable = regexp.MustCompile(`\$\{?([A-Za-z_]+)\}?`)

// Expand puts the values of variables into a query. A variable without a value stays.
func Expand(expr string, values map[string]string) string {
	return variable.ReplaceAllStringFunc(expr, func(use string) string {
		name := variable.FindStringSubmatch(use)[1]
		if name == "__rate_interval" {
			return rateInterval
		}
		if value, ok := values[name]; ok {
			return value
		}
		return use
	})
}
