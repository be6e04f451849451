package dashboard

import (
	"bytes"
	"context"
	"crypto/subtle"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"spore/wire/machine"
)

const (
	silencePath, unsilencePath = "/alerts/silence", "/alerts/unsilence"
	// maxForm bounds what a form brings, in bytes.
	maxForm = 64 << 10
)

// Wish is a silence as a person wants it.
type Wish struct {
	// Name is that of the alerts; all are those of every name, and then there has to be a Node or a label.
	Name string
	// Node is where, empty for everywhere. Labels are further ones that alerts have to have, as NAME=VALUE.
	Node   string
	Labels []string
	// For is a time such as 2h or 3d, 5 minutes to 30 days. Comment is why.
	For, Comment string
}

// form is what a page asks a person.
type form struct {
	Action, Token, Error string
	Wish
	// Ends is the silence that is to be ended; empty where one is to be made.
	Ends silenced
}

// silenced is a silence of an alert that is shown.
type silenced struct {
	ID, By, Until, Comment, Matchers string
	// Path is where it can be ended.
	Path string
}

// wishOf is what the form is filled in with for an alert: what matches it alone.
func wishOf(a machine.Alert, known bool) url.Values {
	q := url.Values{"name": {a.Labels[machine.AlertName]}}
	var labels []string
	for name, value := range a.Labels {
		switch {
		case name == machine.AlertName || name == machine.Severity:
		case name == machine.AlertNode && known:
			q.Set("node", value)
		default:
			labels = append(labels, name+"="+value)
		}
	}
	slices.Sort(labels)
	if len(labels) > 0 {
		q["label"] = labels
	}
	return q
}

// silences are those of an alert. Where acts, they can be ended.
func silences(a machine.Alert, acts bool) []silenced {
	var out []silenced
	for _, s := range a.Silences {
		row := silenced{ID: s.ID, By: s.By, Comment: s.Comment}
		if !s.Ends.IsZero() {
			row.Until = s.Ends.UTC().Format("2006-01-02 15:04 UTC")
		}
		var all []string
		for _, m := range s.Matchers {
			all = append(all, fmt.Sprintf("%s%s%q", m.Name, m.Operator, m.Value))
		}
		row.Matchers = strings.Join(all, ", ")
		if acts {
			row.Path = unsilencePath + "?" + url.Values{"id": {s.ID}}.Encode()
		}
		out = append(out, row)
	}
	return out
}

// act answers what changes something: a form, and what it brings. Who has no right to it sees no form, and is told what
// to do.
//
// A form is of this server: it has the token, which no other page knows; the cookie is not sent from elsewhere, nor is
// what has another origin taken (package entrance).
func (s *Server) act(w http.ResponseWriter, r *http.Request) {
	// Browsers say of a form without a referrer that its origin is null.
	w.Header().Set("Referrer-Policy", "same-origin")
	v, _ := s.watcher.Look()
	a := s.watcher.asker
	switch {
	case s.watcher.Ended():
		s.page(w, r)
		return
	case a.From != "":
		s.refuse(w, http.StatusForbidden, problem{
			Title: "This page looks, and does not silence", Text: "It is served by a node, whose certificate can change nothing.",
			Do: []string{"spore alerts silence", "spore dashboard " + s.Dir},
		})
		return
	case !s.acts():
		s.refuse(w, http.StatusForbidden, problem{
			Title: "You may look, and not silence", Text: "That needs a certificate of an operator, and this page has that of a reader.",
			Do: []string{"spore access " + s.Dir + " --role operator", "stop spore dashboard by Ctrl-C, and start it again",
				"or have somebody with such a certificate do it: spore alerts silence"},
		})
		return
	}
	f := form{Action: r.URL.Path}
	if r.Method == http.MethodPost {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if err := r.ParseForm(); err != nil {
			s.refuse(w, http.StatusBadRequest, problem{
				Title: "The form is malformed", Text: "It was not understood: " + err.Error(), Do: []string{"go to the page of alerts, and begin again"},
			})
			return
		}
		if subtle.ConstantTimeCompare([]byte(r.PostForm.Get("token")), []byte(s.Token)) != 1 {
			s.refuse(w, http.StatusForbidden, problem{
				Title: "The form is of another session", Text: "Nothing was changed. Perhaps spore dashboard was started again since it was opened.",
				Do: []string{"go to the page of alerts, and begin again"},
			})
			return
		}
		f.fill(r.PostForm)
	} else {
		f.fill(r.URL.Query())
	}
	if r.URL.Path == unsilencePath {
		f.Ends = v.silence(f.Ends.ID)
	}
	if r.Method != http.MethodPost {
		s.ask(w, http.StatusOK, f)
		return
	}
	var err error
	switch {
	case r.URL.Path == unsilencePath:
		_, err = a.Unsilence(r.Context(), f.Ends.ID)
	case strings.TrimSpace(f.Name) == "":
		f.Error = "Say which alert, or all."
	case f.For == "":
		f.Error = "Say for how long, such as 2h or 3d."
	case strings.TrimSpace(f.Comment) == "":
		f.Error = "Say why: others will want to know."
	default:
		_, err = a.Silence(r.Context(), f.Wish)
	}
	if err != nil {
		f.Error = "It was not done: " + err.Error()
	}
	if f.Error != "" {
		s.ask(w, http.StatusUnprocessableEntity, f)
		return
	}
	// So that the page behind it has what was done. All who look see the answer, also when this browser has left.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), a.Timeout)
	defer cancel()
	s.watcher.askAlerts(ctx)
	s.forget("/alerts")
	http.Redirect(w, r, "/alerts", http.StatusSeeOther)
}

// fill takes what a person, or the link of an alert, has filled in.
func (f *form) fill(q url.Values) {
	f.Name, f.Node, f.For, f.Comment, f.Ends.ID = q.Get("name"), q.Get("node"), strings.TrimSpace(q.Get("for")), q.Get("comment"), q.Get("id")
	for _, label := range q["label"] {
		for line := range strings.Lines(label) {
			if line = strings.TrimSpace(line); line != "" {
				f.Labels = append(f.Labels, line)
			}
		}
	}
}

// silence finds one by its ID, as far as it is known.
func (v View) silence(id string) silenced {
	for _, a := range v.Alerts {
		for _, s := range silences(a, false) {
			if s.ID == id {
				return s
			}
		}
	}
	return silenced{ID: id}
}

// ask shows a form.
func (s *Server) ask(w http.ResponseWriter, status int, f form) {
	f.Token = s.Token
	p := s.frame("/alerts")
	p.Title, p.Form = "Silence – "+s.Cluster, &f
	s.write(w, status, p, "silence")
}

// refuse shows why something is not done.
func (s *Server) refuse(w http.ResponseWriter, status int, why problem) {
	p := s.frame("")
	p.Title, p.Problem = why.Title+" – "+s.Cluster, &why
	s.write(w, status, p, "problem")
}

// write sends a page that stays as it is.
func (s *Server) write(w http.ResponseWriter, status int, p page, name string) {
	d, err := s.content(p, name)
	var body bytes.Buffer
	if err == nil {
		p.Main, p.Still = template.HTML(d.main), true
		err = s.templates[name].ExecuteTemplate(&body, "page", p)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes())
}

// forget has a page drawn anew.
func (s *Server) forget(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pages, path)
}
