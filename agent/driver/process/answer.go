package process

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"
)

// answer serves one connection: one request, its answer, and for a wait the exit record once there is one.
func (s *shim) answer(conn *net.UnixConn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(answerTimeout))
	line, err := bufio.NewReader(io.LimitReader(conn, maxMessageBytes)).ReadBytes('\n')
	if err != nil {
		return
	}
	var req request
	err = json.Unmarshal(line, &req)
	if err == nil {
		err = s.take(req)
	}
	if s.reply(conn, err) != nil || err != nil || req.Op != opWait {
		return
	}
	_ = conn.SetDeadline(time.Time{})
	gone := make(chan struct{})
	go func() { // ends with the connection, which this function closes
		defer close(gone)
		_, _ = conn.Read(make([]byte, 1))
	}()
	select {
	case <-gone:
	case <-s.exited:
		_ = conn.SetWriteDeadline(time.Now().Add(farewellTimeout))
		_ = s.reply(conn, nil)
	}
}

// take does what the request asks for.
func (s *shim) take(req request) error {
	switch {
	case req.Version != protocolVersion:
		return fmt.Errorf("this shim speaks version %d, not %d", protocolVersion, req.Version)
	case req.TaskID != s.intent.Spec.TaskID || req.Mark != s.intent.Mark:
		return fmt.Errorf("this shim watches another task or start")
	}
	switch req.Op {
	case opPing, opWait:
		return nil
	case opStop:
		sig, err := parseSignal(req.Signal)
		if err != nil {
			return err
		}
		s.stop(sig, req.Grace)
		return nil
	}
	return fmt.Errorf("this shim knows no operation %q", req.Op)
}

// stop hands the order to the watching goroutine, unless the task has ended.
func (s *shim) stop(sig syscall.Signal, grace time.Duration) {
	select {
	case s.stops <- stopOrder{signal: sig, grace: grace}:
	case <-s.exited:
	}
}

func (s *shim) reply(conn *net.UnixConn, problem error) error {
	a := answer{Version: protocolVersion, TaskID: s.intent.Spec.TaskID, Mark: s.intent.Mark, Shim: s.record.Shim}
	if problem != nil {
		a.Err = problem.Error()
	}
	select {
	case <-s.exited:
		a.Exit = &s.exit
	default:
	}
	line, err := json.Marshal(a)
	if err != nil {
		return err
	}
	_, err = conn.Write(append(line, '\n'))
	return err
}
