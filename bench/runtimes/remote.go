package runtimes

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"

	proto "github.com/asynkron/protoactor-go/actor"
	protoremote "github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/bench/workload"
	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/remote"
)

// farVariable makes a program of the benchmark the other process of a workload.
const farVariable = "GREENROOM_BENCH_FAR"

const loopback = "127.0.0.1:0"

var remotes = map[string]struct {
	// listen is what the other process does: it returns its address.
	listen func(far *workload.Far) (addr string, err error)
	dial   func(ctx context.Context, addr string) (workload.Wire, error)
}{
	"greenroom":  {listenGreenroom, dialGreenroom},
	"channels":   {listenTCP, dialTCP},
	"protoactor": {listenProto, dialProto},
	"grpc":       {listenGRPC, dialGRPC},
}

// BeFar makes this process the other one of a workload, if it was started as such: then it does not
// return. A program that runs workloads calls it first.
func BeFar() {
	r, ok := remotes[os.Getenv(farVariable)]
	if !ok {
		return
	}
	addr, err := r.listen(&workload.Far{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stdout, "address", addr)
	_, _ = io.Copy(io.Discard, os.Stdin) // until who has started it ends
	os.Exit(0)
}

// between adds the workloads between processes to those of a runtime.
func between(name string, run workload.Run) workload.Run {
	return func(ctx context.Context, work string, size workload.Size) (workload.Figures, error) {
		if work != "remote" && work != "remoteask" {
			return run(ctx, work, size)
		}
		far, addr, err := startFar(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("start the other process: %w", err)
		}
		wire, err := remotes[name].dial(ctx, addr)
		if err != nil {
			return nil, errors.Join(err, far())
		}
		return workload.Remote(ctx, work, size, ending{wire, far})
	}
}

// ending is a wire that ends the other process.
type ending struct {
	workload.Wire
	end func() error
}

func (c ending) Close() error { return errors.Join(c.Wire.Close(), c.end()) }

// startFar starts the other process. It ends when end is called, or when this one ends.
func startFar(ctx context.Context, name string) (end func() error, addr string, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), farVariable+"="+name)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, "", err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	end = func() error { return errors.Join(in.Close(), cmd.Wait()) }
	lines := bufio.NewScanner(out)
	for lines.Scan() { // some log to it
		if addr, ok := strings.CutPrefix(lines.Text(), "address "); ok {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return end, addr, nil
		}
	}
	return nil, "", errors.Join(errors.New("it says no address"), end())
}

// Greenroom.

type (
	wireMsg interface{ wireMsg() }
	parcel  struct{ Data []byte }
	request struct {
		actor.Returns[[]byte]
		Data []byte
	}
)

func (parcel) wireMsg()  {}
func (request) wireMsg() {}

// AppendBinary implements encoding.BinaryAppender.
func (p parcel) AppendBinary(dst []byte) ([]byte, error) { return append(dst, p.Data...), nil }

// UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (p *parcel) UnmarshalBinary(data []byte) error {
	p.Data = append([]byte(nil), data...)
	return nil
}

var wireTypes = codec.NewTypes(codec.Of[parcel]("parcel"), codec.Of[request]("request"))

func listenGreenroom(far *workload.Far) (string, error) {
	sys := actor.NewSystem("far")
	actor.SpawnFunc(sys, "far", func(ctx *actor.Context[wireMsg], m wireMsg) error {
		switch m := m.(type) {
		case parcel:
			far.Told(m.Data)
		case request:
			actor.Reply(ctx, m, far.Asked(m.Data))
		}
		return nil
	})
	n, err := remote.Listen(sys, remote.Config{Addr: loopback, Types: wireTypes})
	if err != nil {
		return "", err
	}
	return n.Addr().String(), nil
}

type greenroomWire struct {
	ctx context.Context //nolint:containedctx // that of the run
	sys *actor.System
	to  actor.Ref[wireMsg]
}

func dialGreenroom(ctx context.Context, addr string) (workload.Wire, error) {
	sys := newSystem()
	n, err := remote.Listen(sys, remote.Config{Types: wireTypes, Peers: map[string]string{"far": addr}})
	if err != nil {
		return nil, err
	}
	to, err := remote.Find[wireMsg](ctx, n, "far", "/far")
	return greenroomWire{ctx, sys, to}, err
}

func (w greenroomWire) Tell(m []byte) error { return w.to.TryTell(w.ctx, parcel{m}) }

func (w greenroomWire) Ask(m []byte) ([]byte, error) { return actor.Ask(w.ctx, w.to, request{Data: m}) }

func (w greenroomWire) Close() error {
	_, err := w.sys.Shutdown(w.ctx)
	return err
}

// Raw TCP: a length, which says whether an answer is wanted, and the message.

const toAnswer = 1 << 31

func listenTCP(far *workload.Far) (string, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", loopback)
	if err != nil {
		return "", err
	}
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		in := bufio.NewReaderSize(conn, 64<<10)
		for {
			m, asked, err := readTCP(in)
			switch {
			case err != nil:
				return
			case asked:
				_, err = conn.Write(appendTCP(nil, far.Asked(m), 0))
			default:
				far.Told(m)
			}
			if err != nil {
				return
			}
		}
	}()
	return l.Addr().String(), nil
}

func readTCP(in *bufio.Reader) (m []byte, asked bool, err error) {
	head, err := in.Peek(4)
	if err != nil {
		return nil, false, err
	}
	n := binary.BigEndian.Uint32(head)
	asked, n = n&toAnswer != 0, n&^toAnswer
	_, _ = in.Discard(4)
	m = make([]byte, n)
	_, err = io.ReadFull(in, m)
	return m, asked, err
}

func appendTCP(dst, m []byte, flag uint32) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(m))|flag), m...)
}

type tcpWire struct {
	conn net.Conn
	in   *bufio.Reader
	out  *bufio.Writer
	buf  []byte
}

func dialTCP(ctx context.Context, addr string) (workload.Wire, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &tcpWire{conn: conn, in: bufio.NewReader(conn), out: bufio.NewWriterSize(conn, 64<<10)}, nil
}

func (w *tcpWire) Tell(m []byte) error {
	w.buf = appendTCP(w.buf[:0], m, 0)
	_, err := w.out.Write(w.buf)
	return err
}

func (w *tcpWire) Ask(m []byte) ([]byte, error) {
	w.buf = appendTCP(w.buf[:0], m, toAnswer)
	if _, err := w.out.Write(w.buf); err != nil {
		return nil, err
	}
	if err := w.out.Flush(); err != nil {
		return nil, err
	}
	answer, _, err := readTCP(w.in)
	return answer, err
}

func (w *tcpWire) Close() error { return w.conn.Close() }

// Proto.Actor.

func startProto() (*proto.ActorSystem, *protoremote.Remote) {
	system := proto.NewActorSystem(silent())
	r := protoremote.NewRemote(system, protoremote.Configure("127.0.0.1", 0))
	r.Start()
	return system, r
}

func listenProto(far *workload.Far) (string, error) {
	system, _ := startProto()
	_, err := system.Root.SpawnNamed(proto.PropsFromFunc(func(ctx proto.Context) {
		m, ok := ctx.Message().(*wrapperspb.BytesValue)
		switch {
		case !ok:
		case ctx.Sender() != nil:
			ctx.Respond(&wrapperspb.BytesValue{Value: far.Asked(m.Value)})
		default:
			far.Told(m.Value)
		}
	}), "far")
	return system.Address(), err
}

type protoWire struct {
	system *proto.ActorSystem
	remote *protoremote.Remote
	to     *proto.PID
}

func dialProto(_ context.Context, addr string) (workload.Wire, error) {
	system, r := startProto()
	return protoWire{system, r, proto.NewPID(addr, "far")}, nil
}

func (w protoWire) Tell(m []byte) error {
	w.system.Root.Send(w.to, &wrapperspb.BytesValue{Value: append([]byte(nil), m...)}) // it is written later
	return nil
}

func (w protoWire) Ask(m []byte) ([]byte, error) {
	answer, err := w.system.Root.RequestFuture(w.to, &wrapperspb.BytesValue{Value: m}, protoTimeout).Result()
	if err != nil {
		return nil, err
	}
	return answer.(*wrapperspb.BytesValue).GetValue(), nil
}

func (w protoWire) Close() error {
	w.remote.Shutdown(false)
	return nil
}

// gRPC: a stream in both directions.

func grpcStream() Runtime {
	lacks := map[string]string{}
	for _, w := range workload.All() {
		if w.Name != "remote" && w.Name != "remoteask" {
			lacks[w.Name] = "it has no actors"
		}
	}
	return Runtime{
		Name: "grpc", Kind: Peer, Module: "google.golang.org/grpc",
		About: "a stream in both directions, whose messages are bytes in protobuf; without TLS, as the others",
		Lacks: lacks,
		Run: between("grpc", func(context.Context, string, workload.Size) (workload.Figures, error) {
			return nil, workload.ErrUnsupported
		}),
	}
}

var grpcDesc = grpc.StreamDesc{StreamName: "Far", ClientStreams: true, ServerStreams: true}

func listenGRPC(far *workload.Far) (string, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", loopback)
	if err != nil {
		return "", err
	}
	desc := grpcDesc
	desc.Handler = func(_ any, stream grpc.ServerStream) error {
		for {
			var m wrapperspb.BytesValue
			if err := stream.RecvMsg(&m); err != nil {
				return nil //nolint:nilerr // the other one has ended
			}
			if data, asked := bytes.CutPrefix(m.Value, []byte("?")); asked {
				if err := stream.SendMsg(&wrapperspb.BytesValue{Value: far.Asked(data)}); err != nil {
					return err
				}
				continue
			}
			far.Told(m.Value)
		}
	}
	server := grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{ServiceName: "bench.Far", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{desc}}, far)
	go func() { _ = server.Serve(l) }()
	return l.Addr().String(), nil
}

type grpcWire struct {
	conn   *grpc.ClientConn
	stream grpc.ClientStream
}

func dialGRPC(ctx context.Context, addr string) (workload.Wire, error) {
	conn, err := grpc.DialContext(ctx, addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithBlock(), grpc.WithReturnConnectionError()) //nolint:staticcheck // what this version has
	if err != nil {
		return nil, err
	}
	stream, err := conn.NewStream(ctx, &grpcDesc, "/bench.Far/Far")
	return grpcWire{conn, stream}, err
}

func (w grpcWire) Tell(m []byte) error { return w.stream.SendMsg(&wrapperspb.BytesValue{Value: m}) }

func (w grpcWire) Ask(m []byte) ([]byte, error) {
	if err := w.stream.SendMsg(&wrapperspb.BytesValue{Value: append([]byte("?"), m...)}); err != nil {
		return nil, err
	}
	var answer wrapperspb.BytesValue
	err := w.stream.RecvMsg(&answer)
	return answer.GetValue(), err
}

func (w grpcWire) Close() error { return w.conn.Close() }
