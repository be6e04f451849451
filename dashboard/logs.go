package dashboard

import (
	"context"
	"fmt"
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"spore/fleet/logs"
)

const (
	logsPath = "/logs"
	// counted is how many lines are looked for and counted; of these, the newest are shown, as many as shownLines and as
	// have room in shownBytes (HTML), so that a page stays small.
	counted, shownLines, shownBytes = 10_000, 300, 80_000
	// rowBytes is what a line costs on the page besides its texts.
	rowBytes = 260
	// searching bounds a search, searches is how many may be at once, and searchesEach how many of one guest.
	searching, searches, searchesEach = 100 * time.Second, 3, 2
	// bars is how many the histogram has.
	bars = 60
)

// logsData is what the page of logs shows.
type logsData struct {
	// Form is what was asked for, by the names of the fields; the others are what can be chosen.
	Form                     map[string]string
	Nodes, Roles, Priorities []string
	// Asked says that something was looked for, and Problem why nothing can be.
	Asked   bool
	Problem string
	// From is who has answered, and Said what is to be known of the answer.
	From string
	Said []string
	// Lines are the newest of All that were found.
	Lines []logLine
	All   int
	// Bars are the histogram from Begin to End, and Counts says the same in words.
	Bars               []bar
	Begin, End, Counts string
	// Fixed is the address of this search with its times, Earlier that of the lines before these.
	Fixed, Earlier string
}

type logLine struct {
	Time, Node, Unit, Who, Message string
	NodePath, UnitPath             string
	Level                          Level
}

// bar is one of the histogram, in the units of its view box.
type bar struct {
	X, Y, Height int
	// BadY and Bad are the part of errors.
	BadY, Bad int
	Title     string
}

// logFields are the fields of the form, in the order of the address.
var logFields = []string{"node", "role", "unit", "pod", "since", "until", "priority", "grep"}

// logsAt is the address of a search.
func logsAt(fields map[string]string) string {
	q := url.Values{}
	for name, value := range fields {
		if value != "" {
			q.Set(name, value)
		}
	}
	return logsPath + "?" + q.Encode()
}

func (s *Server) logsPage(a asked, p *page) bool {
	d := &logsData{Form: map[string]string{}, Priorities: []string{"emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"}}
	p.Data = d
	for _, n := range a.view.Nodes {
		d.Nodes = append(d.Nodes, n.Name)
	}
	for role, members := range s.watcher.cluster.Members {
		if len(members) > 0 {
			d.Roles = append(d.Roles, role)
		}
	}
	slices.Sort(d.Roles)
	for _, name := range logFields {
		value := strings.TrimSpace(a.query.Get(name))
		d.Form[name] = value
		d.Asked = d.Asked || value != ""
	}
	d.Asked = d.Asked || len(a.query) > 0
	if !d.Asked {
		d.Form["since"] = "1h"
		return true
	}
	one := func(name string) []string {
		if d.Form[name] == "" {
			return nil
		}
		return []string{d.Form[name]}
	}
	leave, why := s.searches.take(a.ctx)
	if leave == nil {
		d.Problem = why
		return true
	}
	defer leave()
	ctx, cancel := context.WithTimeoutCause(a.ctx, searching, fmt.Errorf("the search has no end after %s; look for a shorter time", searching))
	defer cancel()
	found, err := s.watcher.asker.Logs(ctx, logs.Question{
		Nodes: one("node"), Roles: one("role"), Units: one("unit"), Pod: d.Form["pod"], Since: d.Form["since"], Until: d.Form["until"],
		Priority: d.Form["priority"], Pattern: d.Form["grep"], Lines: counted,
	})
	if err != nil {
		d.Problem = err.Error()
		return true
	}
	d.fill(found)
	return true
}

// fill has the page show what was found.
func (d *logsData) fill(found logs.Found) {
	switch {
	case found.Store != "":
		d.From = "The store of " + found.Store + " has answered."
	case found.HasStore:
		d.From = "No store has answered; the nodes were asked themselves."
	default:
		d.From = "The nodes were asked themselves: no node has the role logs, which keeps the lines of all nodes, also of those that are gone."
	}
	d.Said = found.Said
	if found.Problem != nil {
		d.Said = append(d.Said, found.Problem.Error())
	}
	d.All = len(found.Lines)
	size := 0
	for _, l := range slices.Backward(found.Lines) {
		row := rowOf(l)
		for _, text := range []string{row.Node, row.Node, row.Unit, row.Unit, row.Who, row.Message, row.NodePath, row.UnitPath} {
			size += len(template.HTMLEscapeString(text))
		}
		if size += rowBytes; len(d.Lines) == shownLines || size > shownBytes && len(d.Lines) > 0 {
			break
		}
		d.Lines = append(d.Lines, row)
	}
	fixed := maps.Clone(d.Form)
	fixed["until"] = found.Until.UTC().Format(time.RFC3339)
	if !found.Since.IsZero() {
		fixed["since"] = found.Since.UTC().Format(time.RFC3339)
	}
	d.Fixed = logsAt(fixed)
	if len(d.Lines) < len(found.Lines) || d.All == counted {
		// The search has the lines up to that time, which are some of those shown: none is lost between two pages.
		at := found.Lines[len(found.Lines)-len(d.Lines)].Time
		fixed["until"] = at.UTC().Add(time.Microsecond).Format(time.RFC3339Nano)
		if fixed["until"] != d.Form["until"] {
			d.Earlier = logsAt(fixed)
		}
	}
	d.histogram(found)
}

// rowOf is a line as it is shown.
func rowOf(l logs.Line) logLine {
	row := logLine{
		Time: l.Time.UTC().Format("2006-01-02 15:04:05.000"), Node: shown(l.Node), Unit: shown(l.Unit), Who: shown(l.Identifier), Message: shown(l.Message),
		NodePath: nodesPath + url.PathEscape(l.Node), Level: Fine,
	}
	switch {
	case l.Pod != "":
		row.Unit, row.UnitPath = shown(l.Pod), logsAt(map[string]string{"pod": l.Pod, "since": "1h"})
	case l.Unit != "":
		row.UnitPath = logsAt(map[string]string{"node": l.Node, "unit": l.Unit, "since": "1h"})
	}
	switch {
	case l.Priority <= 3:
		row.Level = Critical
	case l.Priority == 4:
		row.Level = Warning
	}
	return row
}

// histogram counts the lines over the time that was asked for, or that they have.
func (d *logsData) histogram(found logs.Found) {
	if len(found.Lines) == 0 {
		return
	}
	begin, end := found.Lines[0].Time, found.Lines[0].Time
	for _, l := range found.Lines { // A node's clock may have been set in between.
		if l.Time.Before(begin) {
			begin = l.Time
		}
		if l.Time.After(end) {
			end = l.Time
		}
	}
	if len(found.Lines) < counted && !found.Since.IsZero() && found.Since.Before(begin) {
		begin = found.Since
	}
	if found.Until.After(end) {
		end = found.Until
	}
	width := max(end.Sub(begin)/bars, time.Millisecond)
	var all, bad [bars]int
	for _, l := range found.Lines {
		i := min(max(int(l.Time.Sub(begin)/width), 0), bars-1)
		all[i]++
		if l.Priority <= 3 {
			bad[i]++
		}
	}
	most, at := 0, 0
	for i, n := range all {
		if n > most {
			most, at = n, i
		}
	}
	const form = "2006-01-02 15:04:05"
	for i, n := range all {
		if n == 0 {
			continue
		}
		b := bar{X: i * 10, Height: max(1, n*100/most)}
		b.Y = 100 - b.Height
		if bad[i] > 0 {
			b.Bad = min(b.Height, max(1, bad[i]*100/most))
			b.BadY = 100 - b.Bad
		}
		b.Title = fmt.Sprintf("%s UTC: %d, errors %d", begin.Add(time.Duration(i)*width).UTC().Format(form), n, bad[i])
		d.Bars = append(d.Bars, b)
	}
	d.Begin, d.End = begin.UTC().Format(form), end.UTC().Format(form)
	d.Counts = fmt.Sprintf("Lines over time, %d in all; most are in the %s from %s UTC: %d", len(found.Lines), short(width),
		begin.Add(time.Duration(at)*width).UTC().Format(form), most)
}

// short is a duration without digits that nobody reads.
func short(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}
