package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"spore/services/kubernetes/etcd/member"
)

// Cluster is who the members are.
type Cluster struct {
	// ID is that of what was formed.
	ID      uint64
	Members []member.Member
}

// answerTime bounds how long a member is asked how it is, on a machine of usual speed.
const answerTime = 3 * time.Second

// Members asks who the members are, as a majority of them knows, and then each of them how it is.
func Members(ctx context.Context, c *clientv3.Client, slow int) (Cluster, error) {
	each := answerTime * time.Duration(max(slow, 1))
	listTime, cancel := context.WithTimeout(ctx, each)
	defer cancel()
	list, err := c.MemberList(listTime)
	if err != nil {
		return Cluster{}, Reason(err)
	}
	out := Cluster{ID: list.Header.ClusterId, Members: make([]member.Member, len(list.Members))}
	var all sync.WaitGroup
	for i, m := range list.Members {
		out.Members[i] = member.Member{ID: m.ID, Name: m.Name, Peers: m.PeerURLs, Learner: m.IsLearner}
		all.Go(func() { out.Members[i].Problem = problem(ctx, c, m.ClientURLs, each) })
	}
	all.Wait()
	return out, nil
}

// problem says why a member does not do its part; "" when it does.
func problem(ctx context.Context, c *clientv3.Client, urls []string, bound time.Duration) string {
	if len(urls) == 0 {
		return "it has not run yet"
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	s, err := c.Status(ctx, urls[0])
	switch {
	case err != nil:
		return Reason(err).Error()
	case s.Leader == 0:
		return "it knows no leader"
	}
	return ""
}

// Reason is an error of etcd in words for people, without where it was asked, which is another place each time.
func Reason(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded {
		return errors.New("no answer in time")
	}
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	text := s.Message()
	if s.Code() != codes.Unavailable {
		return errors.New(text)
	}
	// google.golang.org/grpc puts the last error of a connection into quotes.
	if i := strings.LastIndex(text, "dial tcp "); i >= 0 {
		if _, rest, ok := strings.Cut(text[i+len("dial tcp "):], ": "); ok {
			text = strings.TrimRight(rest, `"`)
		}
	}
	return fmt.Errorf("no answer: %s", text)
}
