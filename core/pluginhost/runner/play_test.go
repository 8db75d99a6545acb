package runner

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
)

func itoa(n int) string { return strconv.Itoa(n) }

// forever blocks without looking like a deadlock to Go.
func forever() {
	never := make(chan os.Signal, 1)
	signal.Notify(never, unix.SIGUSR2)
	<-never
}

func serve(version int) {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig:  handshake(),
		VersionedPlugins: map[int]plugin.PluginSet{version: {"silent": silent{}}},
		GRPCServer:       plugin.DefaultGRPCServer,
	})
}

// serveAndThen serves, and acts when the first call has come, which is well after the handshake.
func serveAndThen(act func()) {
	var once sync.Once
	first := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		once.Do(act)
		return handle(ctx, req)
	}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig:  handshake(),
		VersionedPlugins: map[int]plugin.PluginSet{1: {"silent": silent{}}},
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts, grpc.UnaryInterceptor(first))...)
		},
	})
}

func publish(path, text string) {
	if os.WriteFile(path+".new", []byte(text), 0o600) != nil || os.Rename(path+".new", path) != nil {
		os.Exit(99)
	}
}

// grandchild starts a process that holds this one's output and ignores its end.
func grandchild(pidFile string, ownSession bool) {
	cmd := exec.Command(selfExecutable, asPlugin, "block")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: ownSession}
	if cmd.Start() != nil {
		os.Exit(98)
	}
	publish(pidFile, itoa(cmd.Process.Pid))
}

// playPlugin is one plugin for each way to behave or misbehave.
func playPlugin(mode string, args []string) {
	socketDir := os.Getenv(plugin.EnvUnixSocketDir)
	switch mode {
	case "probe":
		probe(args)
		serve(1)
	case "hog":
		serveAndThen(hog)
	case "serve":
		serve(1)
	case "version":
		n, _ := strconv.Atoi(args[0])
		serve(n)
	case "block":
		forever()
	case "logs":
		fmt.Fprintln(os.Stderr, strings.Join(args, "\n"))
		serve(1)
	case "noise":
		fmt.Println("hello\x1b[31m world")
		serve(1)
	case "garbage":
		_, _ = os.Stdout.WriteString("\x00\xff|" + strings.Repeat("g", 1000) + "\nmore\n")
		forever()
	case "print": // exactly these bytes on stdout, and nothing more
		_, _ = os.Stdout.WriteString(strings.ReplaceAll(args[0], "DIR", socketDir))
		forever()
	case "print-exit":
		_, _ = os.Stdout.WriteString(args[0])
	case "flood-before":
		_, _ = os.Stdout.Write(bytes.Repeat([]byte("x"), 10<<20))
		fmt.Println()
		serve(1)
	case "flood-after":
		stdout := os.Stdout // serve replaces it
		serveAndThen(func() {
			_, err := stdout.Write(bytes.Repeat([]byte("y"), 4<<20))
			publish(args[0], fmt.Sprint(err))
		})
	case "print-later": // through what go-plugin has made of stdout and stderr
		serveAndThen(func() {
			fmt.Println("from stdout")
			fmt.Fprintln(os.Stderr, `{"@level":"warn","@message":"from stderr","size":3}`)
		})
	case "close-stdout":
		_ = os.Stdout.Close()
		forever()
	case "exit":
		code, _ := strconv.Atoi(args[0])
		fmt.Fprintln(os.Stderr, strings.Join(args[1:], "\n"))
		os.Exit(code)
	case "panic":
		panic("boom")
	case "exit-before-handshake":
		plugin.Serve(&plugin.ServeConfig{
			HandshakeConfig:  handshake(),
			VersionedPlugins: map[int]plugin.PluginSet{1: {}},
			GRPCServer:       plugin.DefaultGRPCServer,
			Logger:           exitingLogger{hclog.NewNullLogger()},
		})
	case "grandchild":
		grandchild(args[0], args[1] == "session")
		serve(1)
	case "env":
		publish(args[0], strings.Join(os.Environ(), "\n"))
		serve(1)
	case "ignore-term":
		signal.Ignore(unix.SIGTERM)
		serve(1)
	case "lifeline-only", "death-signal-only":
		if mode == "lifeline-only" {
			_ = unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0)
			go func() {
				_, _ = io.Copy(io.Discard, os.NewFile(lifelineFD, "lifeline"))
				os.Exit(0)
			}()
		}
		serve(1)
	case "no-certificate":
		if _, err := net.Listen("unix", filepath.Join(socketDir, "s")); err != nil {
			os.Exit(97)
		}
		fmt.Printf("1|1|unix|%s/s|grpc|\n", socketDir)
		forever()
	case "freeze-after-handshake", "end-after-handshake":
		l, err := net.Listen("unix", filepath.Join(socketDir, "s"))
		if err != nil {
			os.Exit(97)
		}
		id, err := newIdentity()
		if err != nil {
			os.Exit(96)
		}
		fmt.Printf("1|1|unix|%s|grpc|%s\n", l.Addr(), base64.RawStdEncoding.EncodeToString(id.config.Certificates[0].Certificate[0]))
		if mode == "freeze-after-handshake" {
			forever()
		}
	case "host":
		playHost(args[0], args[1:])
	case "guard":
		os.Exit(GuardMain())
	}
}

// exitingLogger ends the process on go-plugin's message before it writes the handshake.
type exitingLogger struct{ hclog.Logger }

func (exitingLogger) Debug(msg string, _ ...any) {
	if msg == "plugin address" {
		os.Exit(5)
	}
}

// playHost starts one plugin, with a guard, prints its pid and whether it has a control group, and waits to be killed. One whose mode ends in "session" may have
// a control group.
func playHost(dir string, mode []string) {
	l, err := NewLauncher(dir, hclog.NewNullLogger())
	if err != nil {
		fmt.Println(err)
		return
	}
	l.UseGuard(asPlugin, "guard")
	cmd := play(mode[0], mode[1:]...)
	if mode[len(mode)-1] == "session" {
		l.UseConfiner(asConfiner)
		cmd.Confine = Confinement{Level: SandboxAuto, Write: []string{filepath.Dir(mode[1])}}
	}
	p, err := l.Start(context.Background(), cmd, protocol(1))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.PID(), p.child.group != nil)
	forever()
}
