package gate

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html"
	"net/http"
	"strings"
	"sync"
)

// style is that of the page, within it: whoever is not let in gets no file.
const style = `body { max-width: 44rem; margin: 2rem auto; padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; } li { margin: .4rem 0; } code { font: .9em ui-monospace, monospace; }`

// policy lets the page have its style, by the hash of that (CSP3, 2.3.1), and nothing else.
var policy = sync.OnceValue(func() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
})

// write says in a page why nothing is there, and what to do.
func (f refusal) write(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Security-Policy", policy())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	var do strings.Builder
	for _, step := range f.do {
		fmt.Fprintf(&do, "<li>%s</li>\n", marked(step))
	}
	title := html.EscapeString(f.title)
	_, _ = fmt.Fprintf(w, `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>%s</title><style>%s</style></head>
<body><main><h1>%s</h1><p>%s</p>
<ol>
%s</ol></main></body></html>
`, title, style, title, html.EscapeString(f.text), do.String())
}

// marked has the command with which a step begins stand out; words come behind a comma.
func marked(step string) string {
	if !strings.HasPrefix(step, "spore ") {
		return html.EscapeString(step)
	}
	command, words, more := strings.Cut(step, ", ")
	out := "<code>" + html.EscapeString(command) + "</code>"
	if more {
		out += ", " + html.EscapeString(words)
	}
	return out
}
