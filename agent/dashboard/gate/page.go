package gate

import (
	"fmt"
	"html"
	"net/http"
	"strings"
)

// write says in a page why nothing is there, and what to do. It needs no style: whoever is not let in gets no file.
func (f refusal) write(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	var do strings.Builder
	for _, step := range f.do {
		fmt.Fprintf(&do, "<li>%s</li>\n", html.EscapeString(step))
	}
	title := html.EscapeString(f.title)
	_, _ = fmt.Fprintf(w, `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>%s</title></head>
<body><main><h1>%s</h1><p>%s</p>
<ol>
%s</ol></main></body></html>
`, title, title, html.EscapeString(f.text), do.String())
}
