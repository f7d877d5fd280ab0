// The part of Apple's Foundation framework that weft/backends/metal/apple uses, declared from Apple's published documentation
// (developer.apple.com/documentation/foundation), so that it can be compiled, never linked, where there is no such framework.
#pragma once

typedef signed char BOOL;
#define YES ((BOOL)1)
#define NO ((BOOL)0)
#define nil nullptr
typedef unsigned long NSUInteger;
typedef long NSInteger;
typedef NSUInteger NSStringEncoding;
enum { NSUTF8StringEncoding = 4 };

__attribute__((objc_root_class))
@interface NSObject
+ (instancetype)alloc;
- (instancetype)init;
@end

@interface NSString : NSObject
- (instancetype)initWithBytes:(const void*)bytes length:(NSUInteger)length encoding:(NSStringEncoding)encoding;
@property(readonly) const char* UTF8String;
@end

@interface NSError : NSObject
@property(readonly) NSString* localizedDescription;
@end
