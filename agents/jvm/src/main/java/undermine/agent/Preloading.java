package undermine.agent;

import undermine.agent.content.ContentRecorder;
import undermine.agent.content.Tokens;
import undermine.agent.files.FileHooks;
import undermine.agent.heap.HeapHooks;
import undermine.agent.heap.HeapMethod;
import undermine.agent.heap.HeapRecorder;
import undermine.agent.hooks.ChangedData;
import undermine.agent.hooks.Hooks;
import undermine.agent.hooks.LogicalOperations;
import undermine.agent.hooks.MethodExit;
import undermine.agent.hooks.ReturnedObjects;
import undermine.agent.hooks.Undo;
import undermine.agent.instead.ClockCalls;
import undermine.agent.instead.FutureCalls;
import undermine.agent.instead.LockCalls;
import undermine.agent.instead.NativeFileCalls;
import undermine.agent.instead.PoolCalls;
import undermine.agent.instead.QueueCalls;
import undermine.agent.instead.SelectorCalls;
import undermine.agent.instead.TimeCalls;
import undermine.agent.instead.WaitCalls;
import undermine.agent.lib.Payload;
import undermine.agent.names.ObjectNames;
import undermine.agent.net.ChannelHooks;
import undermine.agent.net.Connection;
import undermine.agent.net.Connections;
import undermine.agent.net.DatagramHooks;
import undermine.agent.net.JdkSockets;
import undermine.agent.net.SocketHooks;
import undermine.agent.net.SocketOperations;
import undermine.agent.net.TlsHooks;
import undermine.agent.operations.Call;
import undermine.agent.operations.DataChange;
import undermine.agent.operations.EnclosingOperation;
import undermine.agent.operations.StoreCall;
import undermine.agent.own.BaseClasses;
import undermine.agent.own.CallWeaver;
import undermine.agent.own.ClockComparisons;
import undermine.agent.own.SynchronizedMethod;
import undermine.agent.record.HeldMonitors;
import undermine.agent.record.MethodEntry;
import undermine.agent.record.MonitorUsers;
import undermine.agent.record.Observer;
import undermine.agent.record.Recorder;
import undermine.agent.record.WovenFrame;
import undermine.agent.sync.HandoverHooks;
import undermine.agent.sync.LimitHooks;
import undermine.agent.sync.MonitorHooks;
import undermine.agent.sync.PendingItems;
import undermine.agent.sync.ThreadHooks;

/** Loads the classes that hooks use before any method is woven, so that no hook runs while one of them is being loaded. */
final class Preloading {
    private Preloading() {
    }

    static void hooks() throws ClassNotFoundException {
        load(Hooks.class, MethodEntry.class, MethodExit.class, ChangedData.class, Payload.class, Recorder.class,
                WovenFrame.class, Call.class, DataChange.class,
                EnclosingOperation.class, StoreCall.class, LogicalOperations.class, ReturnedObjects.class, Undo.class, FileHooks.class,
                SocketHooks.class, SocketOperations.class, ChannelHooks.class, DatagramHooks.class, TlsHooks.class,
                JdkSockets.class, Connection.class, Connections.class, ThreadHooks.class, NativeFileCalls.class);
    }

    /** Those of the families that are only observed. */
    static void observed() throws ClassNotFoundException {
        load(Observer.class, ObjectNames.class, PendingItems.class, HandoverHooks.class, LimitHooks.class,
                MonitorHooks.class, HeldMonitors.class, MonitorUsers.class, LockCalls.class, WaitCalls.class, FutureCalls.class, PoolCalls.class,
                QueueCalls.class, TimeCalls.class, ClockCalls.class, SelectorCalls.class, CallWeaver.class,
                ClockComparisons.class, SynchronizedMethod.class, BaseClasses.class);
    }

    /** Those that record accesses to the heap. */
    static void heap() throws ClassNotFoundException {
        load(HeapHooks.class, HeapMethod.class, HeapRecorder.class);
    }

    /** Those that record tokens of contents. */
    static void content() throws ClassNotFoundException {
        load(ContentRecorder.class, Tokens.class);
    }

    private static void load(Class<?>... classes) throws ClassNotFoundException {
        for (Class<?> each : classes) {
            Class.forName(each.getName(), true, null);
        }
    }
}
