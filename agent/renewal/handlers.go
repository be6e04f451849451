package renewal

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// signBound is the longest that the signer may take.
const signBound = 30 * time.Second

// SignHandler hands a request to the signer behind a Unix socket, and its answer back. It reads nothing of either: the request
// carries its own proof, and the keys of the authorities are where the network is not.
func SignHandler(socket string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, MaxRequest+1))
		if err != nil || len(body) > MaxRequest {
			http.Error(w, "the request is too large or was cut off", http.StatusBadRequest)
			return
		}
		answer, err := Hand(r.Context(), socket, body)
		if err != nil {
			http.Error(w, "nobody signs here: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		if refusal, ok := cutRefusal(answer); ok {
			http.Error(w, refusal, http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	}
}

// Hand gives a request to the signer and returns its answer.
func Hand(ctx context.Context, socket string, request []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, signBound)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if _, err := conn.Write(request); err != nil {
		return nil, err
	}
	if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(io.LimitReader(conn, MaxAnswer+1))
	if err != nil {
		return nil, err
	}
	if len(answer) == 0 || len(answer) > MaxAnswer {
		return nil, fmt.Errorf("the signer does not answer; see its journal (spore-signer@*.service)")
	}
	return answer, nil
}

// refusal begins what the signer says instead of an answer, which is JSON.
const refusal = "refused: "

// Refuse is what the signer says to a request that it does not answer.
func Refuse(err error) []byte { return []byte(refusal + err.Error()) }

func cutRefusal(answer []byte) (string, bool) {
	if len(answer) < len(refusal) || string(answer[:len(refusal)]) != refusal {
		return "", false
	}
	return string(answer[len(refusal):]), true
}
