package daemon

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"strings"

	"bourn"
	"bourn/api"
)

// bounded refuses what is larger than any request needs, what says two things at once, and
// bodies of another type than JSON: a form that a browser was led to send is one.
func (s *server) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refuse := func(status int, text string) {
			w.Header().Set("Connection", "close") // the body is not read
			writeProblem(w, humaProblem(requestID(r.Context()), status, text))
		}
		most := int64(maxBody)
		if r.URL.Path == mcpPath {
			most = maxMCPBody
		}
		if r.ContentLength > most {
			refuse(http.StatusRequestEntityTooLarge, "request body is too large")
			return
		}
		if r.ContentLength != 0 && r.Method != http.MethodGet && r.Method != http.MethodHead && !isJSON(r.Header.Values("Content-Type")) {
			refuse(http.StatusUnsupportedMediaType, "request body is not application/json")
			return
		}
		if err := plainQuery(r.URL.RawQuery); err != nil {
			s.refuse(w, r, err)
			return
		}
		// The router would answer with the clean form; nothing of ours is reached by another.
		if clean := path.Clean("/" + r.URL.Path); clean != r.URL.Path {
			s.refuse(w, r, errNoRoute)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, most)
		next.ServeHTTP(w, r)
	})
}

// isJSON reports whether a request says once that its body is JSON.
func isJSON(types []string) bool {
	if len(types) != 1 {
		return false
	}
	kind, params, err := mime.ParseMediaType(types[0])
	charset, has := params["charset"]
	return err == nil && kind == "application/json" && (!has || strings.EqualFold(charset, "utf-8"))
}

// plainQuery refuses a query that cannot be read whole, and a parameter that is there
// twice: others might take the other value.
func plainQuery(raw string) error {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return fmt.Errorf("%w: the query cannot be read", bourn.ErrInvalid)
	}
	for name, all := range values {
		if len(all) > 1 {
			d := api.Detail{Location: "query", Message: "a parameter is there twice"}
			if at, ok := knownPlace("query." + name); ok {
				d.Location = at
			}
			return detailed{fmt.Errorf("%w: validation failed", bourn.ErrInvalid), []api.Detail{d}}
		}
	}
	return nil
}

// recovered makes a panic an internal error. An answer that has begun is broken off: what
// follows it would be taken for a part of it.
func (s *server) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				s.log.ErrorContext(r.Context(), "panic", "value", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
			}
			if a, ok := w.(*answer); !ok || a.status != 0 {
				panic(http.ErrAbortHandler)
			}
			writeProblem(w, problemOf(r.Context(), s.log, bourn.ErrInternal))
		}()
		next.ServeHTTP(w, r)
	})
}
