package dashboard

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"spore/wire/nodeapi"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed static
var staticFiles embed.FS

const (
	nodesPath = "/nodes/"
	// policy lets the page have what the command itself serves, and nothing else.
	policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
		"frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
	// drawn is for how long a page is kept for all who look at it, and what lies between two that a browser gets; beats is
	// how often it hears that the command is there.
	drawn, beats = 2 * time.Second, 3 * time.Second
	// writing bounds how long a browser may take for what it is sent.
	writing = 30 * time.Second
	// maxViewers are connections of open pages, and viewersEach those of one guest.
	maxViewers, viewersEach = 64, 16
	// maxAddress bounds the address of a page, in bytes.
	maxAddress = 4096
	// maxText bounds what is shown of a text of a node, in characters.
	maxText = 2000
)

// Options say what is served.
type Options struct {
	// Cluster is the name of the cluster, and Dir its folder as the commands on the page have it.
	Cluster, Dir string
	Now          func() time.Time
	// Token is what a form has to bring that changes something: nobody guesses it, and it is of this server alone.
	Token string
}

// Server answers a browser that was let in (package entrance).
type Server struct {
	Options
	watcher   *Watcher
	rows      []row
	templates map[string]*template.Template
	static    http.Handler
	viewers   seats
	searches  seats
	followers seats
	questions chan struct{}

	mu    sync.Mutex
	pages map[string]drawing
}

// drawing is a page as it was at a moment.
type drawing struct {
	main, title string
	// event is both as an event has them, made once for all who look.
	event encoded
	sum   uint64
	at    time.Time
	// grows is when the next value on it becomes an old one; zero when none does.
	grows time.Time
}

var seed = maphash.MakeSeed()

// id tells what is drawn from whatever else is.
func (d drawing) id() string { return strconv.FormatUint(d.sum, 16) }

// NewServer makes the server.
func NewServer(o Options, w *Watcher) (*Server, error) {
	o.Dir = word(o.Dir)
	s := &Server{
		Options: o, watcher: w, rows: rows(), templates: map[string]*template.Template{}, questions: make(chan struct{}, questions),
		viewers: seats{all: maxViewers, each: viewersEach, full: "%d pages are open; close some", own: "you have %d pages open; close some"},
		searches: seats{all: searches, each: searchesEach, full: "%d searches are under way; try again when one has ended",
			own: "you have %d searches under way; try again when one has ended"},
		followers: seats{all: maxFollowers, each: followersEach, full: "%d journals are followed; close some", own: "you follow %d journals; close some"},
		pages:     map[string]drawing{},
	}
	names := []string{"silence", "problem"}
	for _, r := range s.rows {
		names = append(names, r.template)
	}
	for _, name := range names {
		t, err := template.New(name).Funcs(s.functions()).ParseFS(templateFiles, "templates/page.html", "templates/"+name+".html")
		if err != nil {
			return nil, fmt.Errorf("internal error: %w", err)
		}
		s.templates[name] = t
	}
	files, err := fs.Sub(staticFiles, "static")
	if err != nil {
		return nil, fmt.Errorf("internal error: %w", err)
	}
	s.static = http.StripPrefix("/static/", http.FileServerFS(files))
	return s, nil
}

// word is a text as one word for a shell: commands on the page are copied.
func word(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+,:@%=", r)
	}
	if text != "" && !strings.ContainsFunc(text, func(r rune) bool { return !plain(r) }) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

func (s *Server) functions() template.FuncMap {
	return template.FuncMap{
		"shown": shown, "level": levelOf, "fine": func() Level { return Fine },
		"join": func(words []string) string {
			if len(words) == 0 {
				return "–"
			}
			return shown(strings.Join(words, ", "))
		},
		"count": func(n int, one, many string) string {
			if n == 1 {
				return "1 " + one
			}
			return fmt.Sprintf("%d %s", n, many)
		},
		"nodePath": func(name string) string { return nodesPath + url.PathEscape(name) },
		"logsOf": func(node, unit string) string {
			return logsAt(map[string]string{"node": node, "unit": unit, "since": "1h"})
		},
		"devicesOf": func(node string) string { return devicesPath + url.PathEscape(node) },
		"historyOf": historyOf,
		"chartsOf":  func(node string) string { return chartsPath + "?" + url.Values{"node": {node}}.Encode() },
		"command":   func(text string) bool { return strings.HasPrefix(text, "spore ") },
		// A narrow screen has lines of a command end between words: browsers end them behind a hyphen, too, as in edge-01.
		"words": func(command string) []string { return strings.Split(shown(command), " ") },
		// What has no room in a line of a phone is broken all the same, and a box of it has no frame on its first line.
		"hyphened": func(word string) bool { return strings.Contains(word, "-") && len(word) <= 30 },
		"since": func(t Trouble) string {
			if t.Since.IsZero() {
				return ""
			}
			at, age := t.Since.UTC().Format("2006-01-02 15:04 UTC"), s.Now().Sub(t.Since)
			switch {
			case t.First && age < time.Minute:
				return "since " + at + " or longer"
			case t.First:
				return "since " + at + ", " + coarse(age) + " or longer"
			}
			return "since " + at + ", " + coarse(age)
		},
	}
}

// coarse is an age that changes by the minute: a page is sent again when it changes.
func coarse(d time.Duration) string {
	if d < time.Minute {
		return "less than a minute"
	}
	return strings.TrimSuffix(ago(d), " ago")
}

// shown is a text of a node: without what a browser would turn around or hide (control characters, and those that
// change the direction), and bounded. The template has it stay text.
func shown(text string) string {
	if runes := []rune(text); len(runes) > maxText {
		text = string(runes[:maxText]) + " …"
	}
	return nodeapi.Harmless(strings.ReplaceAll(text, "\n", " "))
}

// ServeHTTP answers a browser.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Security-Policy", policy)
	switch {
	case strings.HasPrefix(r.URL.Path, "/static/"):
		s.static.ServeHTTP(w, r)
	case r.URL.Path == "/events":
		s.events(w, r)
	case r.URL.Path == seriesPath:
		s.series(w, r)
	case r.URL.Path == journalPath:
		s.journal(w, r)
	case r.URL.Path == silencePath || r.URL.Path == unsilencePath:
		s.act(w, r)
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		s.refuse(w, http.StatusMethodNotAllowed, problem{
			Title: "This page is for reading", Text: "Nothing was changed.", Do: []string{"go to the page of the cluster"},
		})
	default:
		s.page(w, r)
	}
}

func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	v, _ := s.watcher.Look()
	p, name := s.pageOf(r.Context(), r.URL, v, s.Now())
	p.Guest = guestOf(r)
	d, err := s.content(p, name)
	// The browser says by the sum what it has, and gets only what is new.
	p.Main, p.Sum = template.HTML(d.main), d.id()
	var body bytes.Buffer
	if err == nil {
		err = s.templates[name].ExecuteTemplate(&body, "page", p)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	switch {
	case name == "problem" && s.watcher.Ended():
		w.WriteHeader(http.StatusServiceUnavailable)
	case name == "problem":
		w.WriteHeader(http.StatusNotFound)
	}
	_, _ = w.Write(body.Bytes())
}

// content is what is on a page.
func (s *Server) content(p page, name string) (drawing, error) {
	var body bytes.Buffer
	if err := s.templates[name].ExecuteTemplate(&body, "main", p); err != nil {
		return drawing{}, fmt.Errorf("internal error: %w", err)
	}
	d := drawing{main: body.String(), title: p.Title}
	d.sum = maphash.String(seed, d.title+"\x00"+d.main)
	return d, nil
}

// draw is the content of a page now. All who look at it share one that is as good as new.
func (s *Server) draw(address string) (drawing, <-chan struct{}, error) {
	at, err := url.Parse(address)
	if err != nil {
		return drawing{}, nil, fmt.Errorf("the address of the page is malformed: %w", err)
	}
	v, changed := s.watcher.Look()
	now := s.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if d, ok := s.pages[address]; ok && now.Sub(d.at) < drawn && now.Sub(d.at) >= 0 && (d.grows.IsZero() || now.Before(d.grows)) {
		return d, changed, nil
	}
	p, name := s.pageOf(context.Background(), at, v, now)
	d, err := s.content(p, name)
	if err != nil {
		return drawing{}, nil, err
	}
	if d.event, err = encode(map[string]string{"main": d.main, "title": d.title}); err != nil {
		return drawing{}, nil, err
	}
	d.at, d.grows = now, v.grows(now)
	if len(s.pages) > 2*maxViewers {
		clear(s.pages)
	}
	s.pages[address] = d
	return d, changed, nil
}

// events sends the content of a page whenever it is another one (HTML, server-sent events), and says that it is the
// same in between.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	address := r.URL.Query().Get("page")
	at, err := url.ParseRequestURI(address)
	if len(address) > maxAddress || err != nil || !strings.HasPrefix(address, "/") || strings.HasPrefix(address, "//") {
		http.Error(w, "page is the path of a page, with what is asked of it", http.StatusBadRequest)
		return
	}
	if page, _, found := s.find(at.Path); found && page.still {
		http.Error(w, "this page does not change while it is open", http.StatusNotFound)
		return
	}
	leave, why := s.viewers.take(r.Context())
	if leave == nil {
		http.Error(w, why, http.StatusServiceUnavailable)
		return
	}
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream")
	err = s.sendPages(r, w, address)
	if err != nil && r.Context().Err() == nil && !errors.Is(err, http.ErrAbortHandler) {
		panic(http.ErrAbortHandler) // The browser is to see that it has ended.
	}
}

func (s *Server) sendPages(r *http.Request, w http.ResponseWriter, address string) error {
	at, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("the address of the page is malformed: %w", err)
	}
	defer func() { _ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) }() // The connection may have another request.
	// A browser that comes again says what it got last (HTML, 9.2.4), and one that comes first what the page had.
	sent := cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("sum"))
	event := func(name string, data any) error { return send(w, name, sent, data) }
	guest := guestOf(r)
	for {
		if why := guest.over(); why != nil {
			p := s.frame(at.Path)
			p.Title, p.Problem = why.Title+" – "+s.Cluster, why
			d, err := s.content(p, "problem")
			if err != nil {
				return err
			}
			return event("ended", map[string]string{"main": d.main, "title": p.Title})
		}
		if s.watcher.Ended() {
			v, _ := s.watcher.Look()
			p, name := s.pageOf(r.Context(), at, v, s.Now())
			d, err := s.content(p, name)
			if err != nil {
				return err
			}
			return event("ended", map[string]string{"main": d.main, "title": d.title})
		}
		d, changed, err := s.draw(address)
		if err != nil {
			return err
		}
		if d.id() != sent {
			sent = d.id()
			err = event("page", d.event)
		} else {
			err = event("same", nil)
		}
		if err != nil {
			return err
		}
		if err := s.pause(r, changed, d.grows); err != nil {
			return err
		}
	}
}

// encoded is JSON that ends with a line break.
type encoded []byte

func encode(data any) (encoded, error) {
	var text bytes.Buffer
	plain := json.NewEncoder(&text)
	plain.SetEscapeHTML(false) // Half of a page would be escapes.
	err := plain.Encode(data)
	return text.Bytes(), err
}

// send sends an event (HTML, server-sent events), with an ID where there is one. A browser that takes nothing any more is
// not to keep its seat.
func send(w http.ResponseWriter, name, id string, data any) error {
	text, done := data.(encoded)
	if !done {
		var err error
		if text, err = encode(data); err != nil {
			return err
		}
	}
	if id != "" {
		id = "id: " + id + "\n"
	}
	out := http.NewResponseController(w)
	if err := out.SetWriteDeadline(time.Now().Add(writing)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "event: %s\n%sdata: %s\n", name, id, text); err != nil {
		return err
	}
	return out.Flush()
}

// pause waits for a change, for a rest at least and a beat at most, but not past the moment at which a value becomes
// old.
func (s *Server) pause(r *http.Request, changed <-chan struct{}, grows time.Time) error {
	beat := time.NewTimer(beats)
	defer beat.Stop()
	rest := time.NewTimer(drawn)
	defer rest.Stop()
	var old <-chan time.Time
	if !grows.IsZero() {
		// A little later, so that it is old then.
		timer := time.NewTimer(grows.Sub(s.Now()) + 10*time.Millisecond)
		defer timer.Stop()
		old = timer.C
	}
	gone := guestOf(r).gone()
	select {
	case <-r.Context().Done():
		return r.Context().Err()
	case <-gone:
		return nil
	case <-old:
		return nil
	case <-rest.C:
	}
	select {
	case <-r.Context().Done():
		return r.Context().Err()
	case <-gone:
	case <-old:
	case <-changed:
	case <-beat.C:
	}
	return nil
}
